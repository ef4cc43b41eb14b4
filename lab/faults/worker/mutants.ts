import type { IdempotencyStore } from 'nestjs-idempotency';
import type { Fingerprint, TransactionalRecords } from 'nestjs-idempotency/store';
import type { UnitOfWork } from 'nestjs-idempotency/transactions';
import type { PlantedMistake } from '../../../test/support/planted/planted-mistake.js';

/** A mistake that breaks what is promised: but for the first, what the transactional mode promises. */
export interface Mutant extends Pick<PlantedMistake, 'suite' | 'objection'> {
  readonly store?: (real: IdempotencyStore) => IdempotencyStore;
  /** @param pool - whose connections the transactions are on. */
  readonly unitOfWork?: (real: UnitOfWork, pool: unknown) => UnitOfWork;
}

/** Without spaces: they are keys, too. */
export type MutantName =
  | 'outcome-not-stored'
  | 'outcome-stored-outside-of-the-transaction'
  | 'effect-written-outside-of-the-transaction'
  | 'owner-of-the-record-not-compared'
  | 'commit-without-an-answer-counts-as-done';

const TIMEOUT_MS = 5_000;

export const MUTANTS: Readonly<Record<MutantName, Mutant>> = {
  'outcome-not-stored': {
    suite: 'lab/chaos/chaos.all.test.ts',
    objection: 'executed again',
    store: (real) =>
      changed(real, {
        async complete(lease, { timeoutMs }) {
          await real.release(lease, { timeoutMs, tombstoneMs: 60_000 });
          return { kind: 'ok' };
        },
      }),
  },
  'outcome-stored-outside-of-the-transaction': {
    suite: 'test/faults/transactions/crashes.test.ts',
    objection: 'success without an effect',
    store: (real) =>
      withRecords(real, {
        lock: () => Promise.resolve(true),
        async complete(_transaction, lease, command) {
          const rest = { whenGone: 'report', timeoutMs: TIMEOUT_MS } as const;
          await real.complete(lease, { ...command, ...rest, fingerprint: '-' as Fingerprint });
          return 'stored';
        },
      }),
  },
  'effect-written-outside-of-the-transaction': {
    suite: 'test/faults/transactions/crashes.test.ts',
    objection: 'executed again',
    unitOfWork: (real, pool) =>
      changed(real, {
        run: (options, work) =>
          real.run(options, (transaction) => work({ ...transaction, handle: pool })),
      }),
  },
  'owner-of-the-record-not-compared': {
    suite: 'test/faults/transactions/pauses.all.test.ts',
    objection: 'executed again',
    store: (real) =>
      withRecords(real, {
        lock: () => Promise.resolve(true),
        complete: (...args) => real.transactional!.complete(...args).then(() => 'stored' as const),
      }),
  },
  'commit-without-an-answer-counts-as-done': {
    suite: 'test/faults/transactions/crashes.test.ts',
    objection: 'success without an effect',
    store: (real) =>
      changed(real, { release: () => Promise.resolve({ kind: 'not_in_progress' as const }) }),
  },
};

function withRecords(
  real: IdempotencyStore,
  changes: Partial<TransactionalRecords>,
): IdempotencyStore {
  return changed(real, { transactional: changed(real.transactional!, changes) });
}

/** The same object but for these members of it. */
function changed<Thing extends object>(real: Thing, changes: Partial<Thing>): Thing {
  return Object.create(real, Object.getOwnPropertyDescriptors(changes)) as Thing;
}
