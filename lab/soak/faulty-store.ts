import { setTimeout as delay } from 'node:timers/promises';
import { StoreUnavailableError, type IdempotencyStore } from 'nestjs-idempotency';
import type { Begin, Lease, OwnerToken } from 'nestjs-idempotency/store';

/** One in this many commands of its kind meets this. */
const EVERY = { slowBegin: 7, rejectedBegin: 23, rejectedComplete: 11, superseded: 13, lost: 53 };
const LATE_MS = 20;
/** For an attempt without an owner. */
const NO_LEASE_MS = 1;
const TIMEOUT_MS = 5_000;

/**
 * A degraded Redis: it is late, it rejects, and other processes take over. Which command meets what depends
 * only on the order of the commands.
 */
export function faultyStore(real: IdempotencyStore): IdempotencyStore {
  let begins = 0;
  let completions = 0;
  let rivals = 0;

  /** Another process begins, with the same content. */
  async function rival(command: Pick<Begin, 'recordKey' | 'fingerprint'>): Promise<Lease> {
    rivals += 1;
    const token = `rival-${String(rivals).padStart(16, '0')}` as OwnerToken;
    const { recordKey, fingerprint } = command;
    const reply = await real.begin({
      ...{ recordKey, fingerprint, token, leaseMs: NO_LEASE_MS, maxExecutionMs: NO_LEASE_MS },
      ...{ recordRetentionMs: 60_000, notAfter: 0, onExpiredLease: 'takeover' },
      timeoutMs: TIMEOUT_MS,
    });
    return { recordKey, token, fence: 'fence' in reply ? reply.fence : 0 };
  }

  const changes: Partial<IdempotencyStore> = {
    begin: async (command) => {
      begins += 1;
      if (begins % EVERY.rejectedBegin === 0) {
        await delay(LATE_MS);
        throw new StoreUnavailableError('planned');
      }
      if (begins % EVERY.slowBegin === 0) await delay(LATE_MS);
      if (command.onExpiredLease === 'deny' || command.origin !== undefined) {
        await rival(command);
        await delay(2 * NO_LEASE_MS);
      }
      return real.begin(command);
    },
    complete: async (lease, command) => {
      completions += 1;
      if (completions % EVERY.rejectedComplete === 0) throw new StoreUnavailableError('planned');
      const isSuperseded = completions % EVERY.superseded === 0;
      if (isSuperseded || completions % EVERY.lost === 0) {
        await real.release(lease, { tombstoneMs: 60_000, timeoutMs: TIMEOUT_MS });
        const other = await rival({ recordKey: lease.recordKey, fingerprint: command.fingerprint });
        if (isSuperseded) await real.complete(other, command);
      }
      return real.complete(lease, command);
    },
  };
  return Object.create(real, Object.getOwnPropertyDescriptors(changes)) as IdempotencyStore;
}
