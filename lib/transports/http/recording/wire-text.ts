import { isAscii } from 'node:buffer';

/** Bytes from which a text costs more than what it saves. */
const LONGEST_TEXT = 4_096;

/**
 * The body as text, where that goes over the wire as the same bytes whatever its encoding: Node then writes head and body
 * at once, and not one after the other.
 */
export function wireText(body: Uint8Array): string | undefined {
  if (body.length > LONGEST_TEXT || !isAscii(body)) return undefined;
  return Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('latin1');
}

/** Whether a text behind these fields leaves them as they are: Node writes them in the encoding of the text. */
export function areAscii(values: Iterable<unknown>): boolean {
  for (const value of values) if (!ASCII.test(String(value))) return false;
  return true;
}

const ASCII = /^[\0-\x7f]*$/;
