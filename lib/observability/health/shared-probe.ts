import type { IdempotencyStore } from '../../core/store/idempotency-store.js';
import { storeErrorTypeOf, type StoreErrorType } from '../../core/errors/errors.js';
import { nodeClock } from '../../core/util/clock.js';
import { isDoneWithin } from '../../core/util/time.js';
import type { StoreProbe } from './store-probes.js';

/** The codes of this library that a report can contain. */
export type HealthErrorType =
  | 'idempotency_store_unavailable'
  | 'idempotency_store_misconfigured'
  | 'idempotency_store_reply_mismatched'
  | 'idempotency_shutting_down';

export interface ProbeResult {
  readonly latencyMs?: number;
  /** Only if the probe failed. */
  readonly errorType?: HealthErrorType;
}

export const UNAVAILABLE: ProbeResult = { errorType: 'idempotency_store_unavailable' };

/** Runs one probe at a time, whose result all callers share. Later callers get it again until it is too old. */
export class SharedProbe {
  private pending: Promise<ProbeResult> | undefined;
  private last: ProbeResult | undefined;
  private endedAt = -Infinity;

  constructor(
    private readonly store: IdempotencyStore,
    private readonly probe: StoreProbe,
  ) {}

  /**
   * Never rejects, and never waits longer than `timeoutMs`. A probe that outlasts it is not sent again until it has
   * ended: a store that never replies gets one command, not one per caller.
   */
  async result(timeoutMs: number, maxAgeMs: number): Promise<ProbeResult> {
    const { last, endedAt } = this;
    if (last !== undefined && nodeClock.now() - endedAt < maxAgeMs) return last;
    const pending = (this.pending ??= this.run(timeoutMs));
    return (await isDoneWithin(timeoutMs, pending, nodeClock)) ? pending : UNAVAILABLE;
  }

  private async run(timeoutMs: number): Promise<ProbeResult> {
    const startedAt = nodeClock.now();
    let errorType: HealthErrorType | undefined;
    try {
      await this.probe(this.store, timeoutMs);
    } catch (error) {
      errorType = healthErrorType(storeErrorTypeOf(error));
    }
    this.endedAt = nodeClock.now();
    this.pending = undefined;
    const latencyMs = Math.round(this.endedAt - startedAt);
    this.last = errorType === undefined ? { latencyMs } : { latencyMs, errorType };
    return this.last;
  }
}

/** Each has a remedy of its own. Any other error means that the store is unavailable. */
const DISTINCT = ['idempotency_store_misconfigured', 'idempotency_store_reply_mismatched'] as const;

export function healthErrorType(errorType: StoreErrorType): HealthErrorType {
  return DISTINCT.find((code) => code === errorType) ?? 'idempotency_store_unavailable';
}
