import type { ExecutionContext } from '@nestjs/common';

/**
 * Finds the key of a message: what the option `key` may be, besides a header's name. `undefined` means that the message
 * has none.
 */
export type MessageKey = (context: ExecutionContext) => string | undefined;
