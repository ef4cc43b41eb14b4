import { isAscii } from 'node:buffer';
import { asBuffer } from '../../../core/util/as-buffer.js';
import { ValueNotStorableError } from '../../../core/util/errors.js';
import type { ScriptArgument } from '../connection/client-types.js';

/** Stored in place of an origin if begin had none. */
export const NO_ORIGIN = '-';

/** The origin as a word of the record's first line. White space separates these words. */
export function originWord(origin: string | undefined): string {
  if (origin === undefined) return NO_ORIGIN;
  if (!/^\S+$/.test(origin) || origin === NO_ORIGIN) {
    throw new ValueNotStorableError(
      `An origin must be text without white space, and not "${NO_ORIGIN}".`,
    );
  }
  return origin;
}

/** The outcome's header as one line of the record, followed by the body. */
export function headerLine(header: string): string {
  if (header.includes('\n')) {
    throw new ValueNotStorableError('The header of an outcome must be one line.');
  }
  return header;
}

/** Bytes. For a command with bytes in it, ioredis copies all that is sent; longer text costs more than that. */
const LONGEST_TEXT = 1_024;

/** The body as an argument of ioredis. The bytes on the wire are the same: ASCII takes one byte a character. */
export function bodyArgument(body: Uint8Array): ScriptArgument {
  const bytes = asBuffer(body);
  return bytes.length <= LONGEST_TEXT && isAscii(bytes) ? bytes.toString('latin1') : bytes;
}
