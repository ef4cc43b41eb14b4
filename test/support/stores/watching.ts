import type { IdempotencyStore } from 'nestjs-idempotency';
import type { Lease } from 'nestjs-idempotency/store';
import { beginCommand, completeCommand, leaseOf, releaseCommand } from './commands.js';

export async function acquire(store: IdempotencyStore): Promise<Lease> {
  const begin = beginCommand();
  const reply = await store.begin(begin);
  return leaseOf(begin, reply.kind === 'acquired' ? reply.fence : -1);
}

/** Watches a record, and counts its notifications. */
export async function watch(
  store: IdempotencyStore,
  { recordKey }: Pick<Lease, 'recordKey'>,
  timeoutMs: number,
) {
  const watcher = { reported: 0 };
  const count = () => void (watcher.reported += 1);
  const stop = await store.watch(recordKey, count, { timeoutMs });
  return Object.assign(watcher, { stop });
}

/** The ways in which a watched record ends. */
export const end = {
  completed: (store: IdempotencyStore, lease: Lease, notify?: boolean) =>
    store.complete(lease, completeCommand({ notify })),
  released: (store: IdempotencyStore, lease: Lease, notify?: boolean) =>
    store.release(lease, releaseCommand({ notify })),
};
