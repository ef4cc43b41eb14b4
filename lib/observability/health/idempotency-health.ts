import type { IdempotencyMeter } from '../../core/meter/idempotency-meter.js';
import type { BreakerState } from '../../core/record/events.js';
import type { Finding, IdempotencyStore } from '../../core/store/idempotency-store.js';
import type { Duration, InMilliseconds } from '../../core/options/duration.js';
import { choice, duration, resolveOptions, type Schema } from '../../core/options/option-schema.js';
import {
  healthErrorType,
  SharedProbe,
  UNAVAILABLE,
  type HealthErrorType,
  type ProbeResult,
} from './shared-probe.js';
import { readProbe, writeProbe } from './store-probes.js';

export interface IdempotencyHealthOptions {
  /**
   * - `'read'`: reads a record that does not exist. One command. Replays work.
   * - `'write'`: acquires and releases a record of its own. Two commands. First requests work, too: a replica and a full
   *   server fail it.
   * - `'observe'`: sends nothing. Fails while more than half of the commands that operations sent within the last ten
   *   seconds failed.
   * @defaultValue 'read'
   */
  readonly probe?: 'read' | 'write' | 'observe';
  /** How long a check may take. @defaultValue '500ms', from '1ms' to '1m' */
  readonly timeout?: Duration;
  /**
   * How long checks get the last result of the same probe. 0: only concurrent checks share a probe.
   * @defaultValue '1s', from '0ms' to '1h'
   */
  readonly maxAge?: Duration;
}

export type ResolvedHealthOptions = InMilliseconds<Required<IdempotencyHealthOptions>>;

export const HEALTH_OPTIONS: Schema<IdempotencyHealthOptions, ResolvedHealthOptions> = {
  probe: choice(['read', 'write', 'observe'], { default: 'read' }),
  timeout: duration({ default: '500ms', min: '1ms', max: '1m' }),
  maxAge: duration({ default: '1s', min: '0ms', max: '1h' }),
};

/** Contains no key, no caller, no body, no address and no message of an error. */
export interface IdempotencyHealthReport {
  readonly status: 'up' | 'down';
  /** The store's database system: `redis`, `postgresql`, `memory`; of a custom store `custom`, unless it has a name. */
  readonly store: string;
  /** Milliseconds that the probe took. Without a probe, or without its result in time, it is absent. */
  readonly latencyMs?: number;
  /** Only with a breaker. `half_open` while its own probe is pending, which closes or opens it. */
  readonly breaker?: BreakerState;
  /** Attempts of this process that have not ended. */
  readonly running: number;
  /** Duplicates that wait in this process. */
  readonly waiting: number;
  /** Codes of the store's warnings since the start, such as `redis_may_evict`, and `rabbitmq_consumer_stopped`. */
  readonly warnings: readonly string[];
  /** Why it is down. */
  readonly errorType?: HealthErrorType;
}

/** @internal What the health of an application is read from. */
export interface HealthSource {
  readonly store: IdempotencyStore;
  /** Keys and blob store. */
  readonly outcomes?: { diagnose(): AsyncIterable<Finding> };
  /** Attempts that have not ended. */
  running(): Iterable<unknown>;
  /** Duplicates that wait. */
  waiting(): Iterable<unknown>;
}

/**
 * Reports whether idempotent operations can run here. For readiness only: an outage of the store must not restart
 * processes, whose running operations would then be taken over. Injectable;
 * `nestjs-idempotency/terminus` has an indicator for `@nestjs/terminus`.
 * @example
 * ```ts
 * @Get('health/ready')
 * async ready() {
 *   const report = await this.health.check();
 *   if (report.status === 'down') throw new ServiceUnavailableException(report);
 *   return report;
 * }
 * ```
 */
export class IdempotencyHealth {
  private readonly probes: Readonly<Record<'read' | 'write', SharedProbe>>;
  private readonly warnings = new Set<string>();
  private isShuttingDown = false;

  /** @internal */
  constructor(
    private readonly source: HealthSource,
    private readonly meter: Pick<IdempotencyMeter, 'outage'>,
  ) {
    const { store } = source;
    this.probes = {
      read: new SharedProbe(store, readProbe),
      write: new SharedProbe(store, writeProbe),
    };
  }

  /**
   * Probes the store, unless the last result is recent. During the shutdown, and while the circuit breaker is open, it
   * sends nothing and reports `down`.
   * @throws {@link IdempotencyOptionsError} for an invalid option. It does not reject otherwise.
   */
  async check(options: IdempotencyHealthOptions = {}): Promise<IdempotencyHealthReport> {
    const resolved = resolveOptions('IdempotencyHealth.check()', HEALTH_OPTIONS, options);
    const result = this.blocked() ?? (await this.result(resolved));
    const { source } = this;
    const { system, breaker } = source.store;
    // The shutdown may have begun since, or the breaker opened.
    const { latencyMs, errorType } = this.blocked() ?? result;
    return {
      status: errorType === undefined ? 'up' : 'down',
      store: system,
      ...(latencyMs !== undefined && { latencyMs }),
      ...(breaker !== undefined && { breaker }),
      running: [...source.running()].length,
      waiting: [...source.waiting()].length,
      warnings: [...this.warnings],
      ...(errorType !== undefined && { errorType }),
    };
  }

  /**
   * Checks what this application uses, as `npx nestjs-idempotency doctor` does: its store, the ids of its keys, its blob
   * store; one finding after the other, over some seconds. For an operator, not for a probe.
   */
  async *diagnose(): AsyncIterable<Finding> {
    const { store, outcomes } = this.source;
    yield* store.diagnose();
    if (outcomes !== undefined) yield* outcomes.diagnose();
  }

  /** @internal */
  warned(code: string): void {
    this.warnings.add(code);
  }

  /** Called by Nest, before it waits for running operations: the load balancer may still send requests. */
  onModuleDestroy(): void {
    this.isShuttingDown = true;
  }

  /** Why no probe is sent. */
  private blocked(): ProbeResult | undefined {
    if (this.isShuttingDown) return { errorType: 'idempotency_shutting_down' };
    const { breaker } = this.source.store;
    return breaker === undefined || breaker === 'closed' ? undefined : UNAVAILABLE;
  }

  private result({
    probe,
    timeout: timeoutMs,
    maxAge: maxAgeMs,
  }: ResolvedHealthOptions): ProbeResult | Promise<ProbeResult> {
    if (probe !== 'observe') return this.probes[probe].result(timeoutMs, maxAgeMs);
    const outage = this.meter.outage();
    return outage === undefined ? {} : { errorType: healthErrorType(outage) };
  }
}
