import { ValueNotStorableError } from '../../core/errors.js';

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

/** The same bytes as the client takes them, without a copy. */
export function asBuffer(body: Uint8Array): Buffer {
  return Buffer.isBuffer(body) ? body : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
}
