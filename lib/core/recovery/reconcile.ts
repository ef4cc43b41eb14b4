import type { IdempotencyEngine } from '../engine/idempotency-engine.js';
import { parseOrigin } from '../operation/operation-request.js';
import type { Services } from '../operation/recovery.js';
import type { AbandonedRecord } from '../store/idempotency-store.js';
import { IdempotencyOptionsError } from '../util/errors.js';
import { checkInteger, switchedSettings } from '../util/option-checks.js';
import { jitteredPause } from '../util/time.js';
import { recoverRecord, type RecoveryResult, type RecoverableOperation } from './recover-record.js';

/** What a round of the reconciler came to: how many records, by what became of them. */
export interface ReconcileReport {
  /** Completed with what `onTakeover` has found. */
  readonly completed: number;
  /** Released, because nothing had been done: the next request runs the operation at once. */
  readonly released: number;
  /** Taken or finished by somebody else in between. */
  readonly overtaken: number;
  /** `onTakeover` threw or was not done in time (event `recovery_failed`), or the outcome was not stored in time. */
  readonly failed: number;
  /** Of operations that this process does not know, or knows no `onTakeover` of: left as they are. */
  readonly unknown: number;
  /**
   * `'complete'`: every record that was left behind was looked at. `'partial'`: the batch was full, or the round was
   * interrupted; the next one goes on from there. `'already_running'`: another process was at it.
   */
  readonly coverage: 'complete' | 'partial' | 'already_running';
}

type Counts = Record<Exclude<keyof ReconcileReport, 'coverage'>, number>;

/** Between two pages, so that a scan of a large keyspace leaves the server to others. */
const PAGE_PAUSE_MS = 10;

/** The round of a process that had nothing to do. */
export function skippedRound(): ReconcileReport {
  return { ...noCounts(), coverage: 'already_running' };
}

function noCounts(): Counts {
  return { completed: 0, released: 0, overtaken: 0, failed: 0, unknown: 0 };
}

/** Goes through the records that were left behind, a batch each round, one record after the other. */
export class Reconciliation {
  /** Where the last round ended: what it left behind must not keep the next one from what comes after. */
  private cursor: string | undefined;

  /** @param operationOf - finds an operation that can be recovered, by its name. */
  constructor(
    private readonly engine: IdempotencyEngine,
    private readonly services: Services,
    private readonly operationOf: (name: string) => RecoverableOperation | undefined,
    private readonly options: ResolvedReconcileOptions,
    private readonly commandTimeoutMs: number,
  ) {}

  /**
   * @param isOver - asked before every record and every page.
   * @throws {@link IdempotencyOptionsError} where the store cannot list records.
   */
  async round(isOver: () => boolean): Promise<ReconcileReport> {
    const counts = noCounts();
    const { batchSize } = this.options;
    for (let processed = 0; processed < batchSize && !isOver();) {
      const page = await this.page(batchSize - processed);
      for (const record of page.records) {
        const result = isOver() ? 'interrupted' : await this.recover(record);
        // The same page is asked for again.
        if (result === 'interrupted') return { ...counts, coverage: 'partial' };
        counts[result] += 1;
        processed += 1;
      }
      this.cursor = page.cursor;
      if (page.cursor === undefined) return { ...counts, coverage: 'complete' };
      await jitteredPause(PAGE_PAUSE_MS);
    }
    return { ...counts, coverage: 'partial' };
  }

  private async page(limit: number) {
    const { cursor, commandTimeoutMs: timeoutMs } = this;
    const { afterMs: overMs } = this.options;
    const page = await this.engine.store.abandoned({ overMs, limit, cursor, timeoutMs });
    if (page !== undefined) return page;
    throw new IdempotencyOptionsError(
      'The reconciler needs a store that lists abandoned records, and the given "store" does not: it has no abandoned().',
    );
  }

  private async recover({
    recordKey,
    fingerprint,
    origin,
  }: AbandonedRecord): Promise<RecoveryResult | 'unknown'> {
    const identity = parseOrigin(origin);
    if (identity === undefined) return 'unknown';
    const operation = this.operationOf(identity.operation);
    if (operation === undefined) return 'unknown';
    const record = { recordKey, fingerprint, ...identity };
    return recoverRecord(this.engine, this.services, record, operation);
  }
}

/** How the reconciler looks for records that were left behind. */
export interface ReconcileOptions {
  /**
   * Milliseconds from the end of one round to the next, up to half of them left out at random so that the
   * processes do not come all at once. 100 to 86 400 000.
   * @defaultValue 60_000
   */
  readonly intervalMs?: number;
  /**
   * How many records one round looks at, about: a page of Redis' SCAN that is under way is finished. The next
   * round goes on where this one ended. 1 to 10 000.
   * @defaultValue 100
   */
  readonly batchSize?: number;
  /**
   * Milliseconds that a lease has been over before its record counts as left behind: until then the client's own
   * repetition may come, which gets the whole answer. 0 to 86 400 000.
   * @defaultValue 300_000
   */
  readonly afterMs?: number;
}

/** {@link ReconcileOptions} with every default filled in. */
export type ResolvedReconcileOptions = Required<ReconcileOptions>;

/** The defaults of {@link ReconcileOptions}. */
export const RECONCILE_DEFAULTS: ResolvedReconcileOptions = Object.freeze({
  intervalMs: 60_000,
  batchSize: 100,
  afterMs: 300_000,
});

const DAY_MS = 86_400_000;

/**
 * @returns `undefined` where nothing is to happen by itself.
 * @throws {@link IdempotencyOptionsError} naming option, range and value.
 */
export function resolveReconcileOptions(
  reconcile: boolean | ReconcileOptions | undefined,
): ResolvedReconcileOptions | undefined {
  const resolved = switchedSettings('reconcile', reconcile, RECONCILE_DEFAULTS);
  if (resolved === undefined) return undefined;
  checkInteger('reconcile.intervalMs', resolved.intervalMs, 100, DAY_MS);
  checkInteger('reconcile.batchSize', resolved.batchSize, 1, 10_000);
  checkInteger('reconcile.afterMs', resolved.afterMs, 0, DAY_MS);
  return Object.freeze(resolved);
}
