import { isAscii } from 'node:buffer';
import { asBuffer } from '../../../core/util/as-buffer.js';
import { ValueNotStorableError } from '../../../core/util/errors.js';
import type { ScriptArgument } from '../connection/client-types.js';

/** Stands in the record where begin carried no origin. */
export const NO_ORIGIN = '-';

/** The origin as a word of the record's first line: white space would tear the line apart. */
export function originWord(origin: string | undefined): string {
  if (origin === undefined) return NO_ORIGIN;
  if (!/^\S+$/.test(origin) || origin === NO_ORIGIN) {
    throw new ValueNotStorableError(
      `An origin must be text without white space, and not "${NO_ORIGIN}".`,
    );
  }
  return origin;
}

/** The outcome's header as a line of the record: the body begins after it. */
export function headerLine(header: string): string {
  if (header.includes('\n')) {
    throw new ValueNotStorableError('The header of an outcome must be one line.');
  }
  return header;
}

/**
 * Bytes up to which a body goes as text where it can. Of a command with bytes in it ioredis makes a copy, and another
 * one of all that goes out with it; longer text costs more than both.
 */
const LONGEST_TEXT = 1_024;

/** The body as the client takes it. On the wire it is the same bytes, for ASCII is written one byte a character. */
export function bodyArgument(body: Uint8Array): ScriptArgument {
  const bytes = asBuffer(body);
  return bytes.length <= LONGEST_TEXT && isAscii(bytes) ? bytes.toString('latin1') : bytes;
}
