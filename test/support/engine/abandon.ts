import { randomUUID } from 'node:crypto';
import type { IdempotencyStore } from 'nestjs-idempotency';
import { recordKey, type Lease, type Scope } from 'nestjs-idempotency/store';
import {
  canonicalJson,
  fingerprint,
  newOwnerToken,
  originOf,
  nodeClock,
} from '../internals/core.js';
import { namedFor } from '../stores/named-for.js';

export const LEASE_MS = 10_000;
const MAX_EXECUTION_MS = 300_000;
const RETENTION_MS = 86_400_000;
const TIMEOUT_MS = 10_000;

/** A call that began and never ended. */
export interface AbandonedCall {
  readonly operation: string;
  readonly key: string;
  readonly scope: Scope;
  readonly lease: Lease;
}

/** Begins like `IdempotencyService.run()` with a function as `onTakeover`, and never ends. */
export async function abandon(
  store: IdempotencyStore,
  operation: string,
  key: string = randomUUID(),
  leaseMs = LEASE_MS,
  { service, note }: { readonly service?: string | undefined; readonly note?: string } = namedFor(
    store,
  ),
): Promise<AbandonedCall> {
  const request = { operation, key, scope: ['alice'] };
  const begin = {
    recordKey: recordKey({ ...request, service }),
    token: newOwnerToken(nodeClock),
    fingerprint: fingerprint([operation, canonicalJson(undefined)]),
    leaseMs,
    maxExecutionMs: MAX_EXECUTION_MS,
    recordRetentionMs: RETENTION_MS + MAX_EXECUTION_MS,
    notAfter: 0,
    onExpiredLease: 'takeover' as const,
    origin: originOf(request, service),
    note,
    timeoutMs: TIMEOUT_MS,
  };
  const reply = await store.begin(begin);
  if (reply.kind !== 'acquired') throw new Error(`begin returned ${reply.kind}`);
  const { recordKey: of, token } = begin;
  return { ...request, lease: { recordKey: of, token, fence: reply.fence } };
}

/** The current record of a call. */
export async function recordOf(store: IdempotencyStore, { lease }: AbandonedCall) {
  return store.inspect(lease.recordKey, { timeoutMs: TIMEOUT_MS });
}
