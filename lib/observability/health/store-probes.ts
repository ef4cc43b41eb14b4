import { UNKNOWN_FENCE, type Fingerprint } from '../../core/record/record.js';
import { newOwnerToken, newProbeKey } from '../../core/record/record-key.js';
import type { IdempotencyStore } from '../../core/store/idempotency-store.js';
import { StoreUnavailableError } from '../../core/util/errors.js';
import { nodeClock } from '../../core/util/clock.js';

/** Sends commands to the store. Rejects if the store did not execute them within `timeoutMs`. */
export type StoreProbe = (store: IdempotencyStore, timeoutMs: number) => Promise<void>;

const FINGERPRINT = 'health-probe' as Fingerprint;

export const readProbe: StoreProbe = async (store, timeoutMs) => {
  await store.inspect(newProbeKey(nodeClock), { timeoutMs });
};

/** Acquires a record and releases it. The record expires at once, or soon if the release is lost. */
export const writeProbe: StoreProbe = async (store, timeoutMs) => {
  const dueAt = nodeClock.now() + timeoutMs;
  const recordKey = newProbeKey(nodeClock);
  const token = newOwnerToken(nodeClock);
  const keptMs = 2 * timeoutMs;
  await store.begin({
    recordKey,
    token,
    fingerprint: FINGERPRINT,
    leaseMs: keptMs,
    maxExecutionMs: keptMs,
    recordRetentionMs: keptMs,
    notAfter: 0,
    onExpiredLease: 'deny',
    timeoutMs,
  });
  // By the token alone: the reply also proves that begin was written.
  const { kind } = await store.release(
    { recordKey, token, fence: UNKNOWN_FENCE },
    { tombstoneMs: 1, timeoutMs: Math.max(1, Math.ceil(dueAt - nodeClock.now())) },
  );
  if (kind !== 'ok' && kind !== 'already') {
    throw new StoreUnavailableError('The store did not keep the record of the probe.');
  }
};
