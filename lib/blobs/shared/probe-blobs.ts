import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import {
  blobName,
  BlobUnavailableError,
  type BlobName,
  type BlobStore,
} from '../../core/payload/blob-store.js';
import type { OwnerToken, RecordKey } from '../../core/record/record.js';

/** Of the shortest class: what a process leaves that ends in between is deleted first. */
const RETENTION_MS = 60_000;

const TIMEOUT_MS = 10_000;

/** A name that no request can have, since it is no digest. */
export function newProbeName(): BlobName {
  return blobName(
    RETENTION_MS,
    'probe' as RecordKey,
    randomBytes(16).toString('base64url') as OwnerToken,
  );
}

/**
 * Writes, reads and deletes a blob, as the start does.
 * @param afterPut - is called while the blob is there.
 * @throws what a step throws; {@link BlobUnavailableError} if it did not do what it said.
 */
export async function probeBlobs(
  store: Pick<BlobStore, 'put' | 'get' | 'delete'>,
  afterPut: (name: BlobName, bytes: Buffer, signal: AbortSignal) => Promise<void> = () =>
    Promise.resolve(),
): Promise<void> {
  const name = newProbeName();
  const bytes = randomBytes(64);
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const expiresAt = new Date(Date.now() + RETENTION_MS);
  await store.put(name, Readable.from([bytes]), { bytes: bytes.length, expiresAt, signal });
  await afterPut(name, bytes, signal);
  const stored = await store.get(name, { signal });
  if (stored === undefined || !bytes.equals(await buffer(stored))) {
    throw new BlobUnavailableError('The blob store did not return the bytes that it had stored.');
  }
  await store.delete(name);
  const deleted = await store.get(name, { signal });
  if (deleted !== undefined) {
    deleted.destroy();
    throw new BlobUnavailableError('The blob store still has a blob that it had deleted.');
  }
}
