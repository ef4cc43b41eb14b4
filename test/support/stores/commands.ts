import { randomBytes } from 'node:crypto';
import type {
  Begin,
  Complete,
  Extend,
  Release,
  Fingerprint,
  Lease,
  OwnerToken,
  RecordKey,
} from '../internals/core.js';
import type { IdempotencyStore } from 'nestjs-idempotency';

const MAX_EXECUTION_MS = 300_000;
const RETENTION_MS = 3_600_000;
export const TIMEOUT_MS = 2_000;

export function newRecordKey(): RecordKey {
  return randomBytes(32).toString('base64url') as RecordKey;
}

export function newToken(): OwnerToken {
  return randomBytes(16).toString('base64url') as OwnerToken;
}

export const FINGERPRINT = 'Zm9v_fingerprint-of-43-characters-000000000' as Fingerprint;

export function beginCommand(changes: Partial<Begin> = {}): Begin {
  return {
    recordKey: newRecordKey(),
    token: newToken(),
    fingerprint: FINGERPRINT,
    leaseMs: 10_000,
    maxExecutionMs: MAX_EXECUTION_MS,
    recordRetentionMs: RETENTION_MS + MAX_EXECUTION_MS,
    notAfter: 0,
    onExpiredLease: 'takeover',
    timeoutMs: TIMEOUT_MS,
    ...changes,
  };
}

export function leaseOf(begin: Begin, fence: number): Lease {
  return { recordKey: begin.recordKey, token: begin.token, fence };
}

export function extendCommand(changes: Partial<Extend> = {}): Extend {
  return {
    leaseMs: 10_000,
    recordRetentionMs: RETENTION_MS + MAX_EXECUTION_MS,
    timeoutMs: TIMEOUT_MS,
    ...changes,
  };
}

export function completeCommand(changes: Partial<Complete> = {}): Complete {
  return {
    state: 'completed',
    outcome: { header: '{"status":201}', body: Buffer.from('{"id":1}') },
    retentionMs: RETENTION_MS,
    fingerprint: FINGERPRINT,
    whenGone: 'report',
    timeoutMs: TIMEOUT_MS,
    ...changes,
  };
}

export function releaseCommand(changes: Partial<Release> = {}): Release {
  return { tombstoneMs: RETENTION_MS, timeoutMs: TIMEOUT_MS, ...changes };
}

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
