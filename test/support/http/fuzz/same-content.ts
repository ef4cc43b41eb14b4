import { isDeepStrictEqual } from 'node:util';
import type { FuzzedContent } from './fuzzed-request.js';

/**
 * Whether two bodies are the same JSON value, or the same bytes on a route that compares bytes.
 *
 * @returns `undefined` where that is hard to determine: another type, a coding, bytes that are lost on the
 * way.
 */
export function isSameBody(
  one: FuzzedContent,
  other: FuzzedContent,
  byBytes: boolean,
): boolean | undefined {
  const [left, right] = [plainBytes(one), plainBytes(other)];
  if (left === undefined || right === undefined) return undefined;
  if (byBytes) return left.equals(right);
  try {
    return isDeepStrictEqual(valueOf(left), valueOf(right));
  } catch {
    return undefined;
  }
}

function plainBytes({ body, framing, cutAt }: FuzzedContent): Buffer | undefined {
  if (body === undefined || body.coding !== undefined || cutAt !== undefined) return undefined;
  const isWhole = framing === 'length' || framing === 'chunked';
  return isWhole && body.types.join() === 'application/json' ? body.bytes : undefined;
}

/** Without the sign of a zero, which does not distinguish numbers. */
function valueOf(bytes: Buffer): unknown {
  return JSON.parse(bytes.toString(), (_, value: unknown) => (value === 0 ? 0 : value));
}
