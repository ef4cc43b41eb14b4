import { rpcSource } from '../rpc-context.js';
import { messageIdOf } from './message-id.js';
import { headerOf } from './message-headers.js';
import type { MessageKey } from './message-key.js';

/** The name of the header where nothing else is configured. */
const DEFAULT_HEADER = 'idempotency-key';

/**
 * Where the key is looked for unless the option `key` is a function: in the header of that name; and where the name was
 * left at its default, and the message has no such header, it is the message's own id (see {@link messageId}).
 *
 * @param headerName - in any case.
 */
export function defaultMessageKey(headerName: string): MessageKey {
  const isDefault = headerName.toLowerCase() === DEFAULT_HEADER;
  return (context) => {
    const source = rpcSource(context);
    return headerOf(source, headerName) ?? (isDefault ? messageIdOf(source) : undefined);
  };
}
