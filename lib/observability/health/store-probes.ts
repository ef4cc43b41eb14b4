import { newProbeKey } from '../../core/record/record-key.js';
import type { IdempotencyStore } from '../../core/store/idempotency-store.js';
import { Trial } from '../../core/store/diagnosis/trial.js';
import { nodeClock } from '../../core/util/clock.js';

/** Sends commands to the store. Rejects if the store did not execute them within `timeoutMs`. */
export type StoreProbe = (store: IdempotencyStore, timeoutMs: number) => Promise<void>;

export const readProbe: StoreProbe = async (store, timeoutMs) => {
  await store.inspect(newProbeKey(nodeClock), { timeoutMs });
};

/** Acquires a record and releases it. The record expires at once, or soon if the release is lost. */
export const writeProbe: StoreProbe = async (store, timeoutMs) => {
  const trial = new Trial(store, timeoutMs, 2 * timeoutMs);
  await trial.release(await trial.begin());
};
