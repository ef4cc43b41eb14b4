import type { IdempotencyEngine } from '../engine/idempotency-engine.js';
import type { Services } from '../operation/recovery.js';
import type { ReconcileReport } from '../record/events.js';
import type { AbandonedRecord } from '../record/commands.js';
import type { Duration, InMilliseconds } from '../options/duration.js';
import { IdempotencyOptionsError } from '../errors/errors.js';
import { duration, integer, type Group } from '../options/option-schema.js';
import { jitteredPause } from '../util/time.js';
import { recoverRecord, type RecoveryResult, type RecoverableOperation } from './recover-record.js';

type Counts = Record<Exclude<keyof ReconcileReport, 'coverage'>, number>;

/** Pause between two pages, to limit the load of scanning a large keyspace. */
const PAGE_PAUSE_MS = 10;

export function skippedRound(): ReconcileReport {
  return { ...noCounts(), coverage: 'already_running' };
}

function noCounts(): Counts {
  return { completed: 0, released: 0, overtaken: 0, failed: 0, unknown: 0 };
}

/** Recovers abandoned records, a batch per round, one record at a time. */
export class Reconciliation {
  /** Where the last round ended, so that records it could not recover do not block later ones. */
  private cursor: string | undefined;

  constructor(
    private readonly engine: IdempotencyEngine,
    private readonly services: Services,
    private readonly operationOf: (name: string) => RecoverableOperation | undefined,
    private readonly options: ResolvedReconcileOptions,
    private readonly commandTimeoutMs: number,
  ) {}

  /**
   * Calls `isOver` before each record and page. Throws {@link IdempotencyOptionsError} if the store cannot list them.
   */
  async round(isOver: () => boolean): Promise<ReconcileReport> {
    const counts = noCounts();
    const { batchSize } = this.options;
    for (let processed = 0; processed < batchSize && !isOver();) {
      const page = await this.page(batchSize - processed);
      for (const record of page.records) {
        const result = isOver() ? 'interrupted' : await this.recover(record);
        // The next round requests the same page.
        if (result === 'interrupted') return { ...counts, coverage: 'partial' };
        counts[result] += 1;
        processed += 1;
      }
      this.cursor = page.cursor;
      if (page.cursor === undefined) return { ...counts, coverage: 'complete' };
      await jitteredPause(PAGE_PAUSE_MS, this.engine.clock);
    }
    return { ...counts, coverage: 'partial' };
  }

  private async page(limit: number) {
    const { cursor, commandTimeoutMs: timeoutMs } = this;
    const { after: overMs } = this.options;
    const { store, events } = this.engine;
    const page = await events.counted('abandoned', () =>
      store.abandoned({ overMs, limit, cursor, timeoutMs }),
    );
    if (page !== undefined) return page;
    throw new IdempotencyOptionsError(
      'The reconciler requires a store that lists abandoned records. The given "store" does not implement abandoned().',
    );
  }

  private async recover(abandoned: AbandonedRecord): Promise<RecoveryResult | 'unknown'> {
    const record = await this.engine.originOf(abandoned);
    const operation = record && this.operationOf(record.operation);
    if (record === undefined || operation === undefined) return 'unknown';
    return recoverRecord(this.engine, this.services, record, operation);
  }
}

/** How the reconciler finds abandoned records. */
export interface ReconcileOptions {
  /**
   * From the end of one round to the next, shortened at random by up to half so that processes do not all
   * start at once.
   * @defaultValue '1m', from '100ms' to '24h'
   */
  readonly interval?: Duration;
  /**
   * About how many records a round processes: Redis completes a page of SCAN. The next round continues.
   * @defaultValue 100, from 1 to 10_000
   */
  readonly batchSize?: number;
  /**
   * From the end of a lease until its record counts as abandoned. Until then the client's own retry can take
   * it over, and gets the full response.
   * @defaultValue '5m', from '0ms' to '24h'
   */
  readonly after?: Duration;
}

export type ResolvedReconcileOptions = InMilliseconds<Required<ReconcileOptions>>;

export const RECONCILE: Group<ReconcileOptions, ResolvedReconcileOptions> = {
  fields: {
    interval: duration({ default: '1m', min: '100ms', max: '24h' }),
    batchSize: integer({ default: 100, min: 1, max: 10_000 }),
    after: duration({ default: '5m', min: '0ms', max: '24h' }),
  },
  isSwitched: true,
  places: ['module'],
};
