import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { blobName, type BlobName, type BlobStore, type PutHints } from 'nestjs-idempotency/store';

/** A signal that is never aborted. */
export const never: AbortSignal = new AbortController().signal;

export function newName(retentionMs = 3_600_000): BlobName {
  const text = (bytes: number) => randomBytes(bytes).toString('base64url');
  return blobName(retentionMs, text(32) as never, text(16) as never);
}

/** A stream of these bytes, which then ends, or waits for ever. */
export function sourceOf(
  bytes: Buffer,
  then: 'end' | 'wait' = 'end',
): Readable & { pulled: number } {
  const source = Object.assign(
    new Readable({
      read() {
        const chunk = bytes.subarray(source.pulled, source.pulled + 65_536);
        source.pulled += chunk.length;
        if (chunk.length > 0) this.push(chunk);
        else if (then === 'end') this.push(null);
      },
    }),
    { pulled: 0 },
  );
  return source;
}

export function put(
  store: BlobStore,
  name: BlobName,
  source: Buffer | Readable,
  hints: Partial<PutHints> = {},
): Promise<void> {
  const expiresAt = new Date(Date.now() + 3_600_000);
  const stream = source instanceof Readable ? source : sourceOf(source);
  return store.put(name, stream, { expiresAt, signal: never, ...hints });
}
