import type {
  BeforeApplicationShutdown,
  OnApplicationBootstrap,
  OnModuleDestroy,
} from '@nestjs/common';
import type { IdempotencyEngine } from '../core/engine/idempotency-engine.js';
import type { IdempotencyMeter } from '../core/meter/idempotency-meter.js';
import type { LeaseOptions, ProtocolOptions } from '../core/operation/options.js';
import type { Recover, Services } from '../core/operation/recovery.js';
import type { ReconcileReport } from '../core/record/events.js';
import {
  skippedRound,
  RECONCILE,
  Reconciliation,
  type ResolvedReconcileOptions,
} from '../core/recovery/reconcile.js';
import type { RecoverableOperation } from '../core/recovery/recover-record.js';
import { SingleRunner } from '../core/recovery/single-runner.js';
import type { ClockTimer } from '../core/util/clock.js';
import { asError, hasCode, IdempotencyOptionsError } from '../core/errors/errors.js';
import { checkFunction, throwOptionError, within } from '../core/options/option-checks.js';
import { resolveGroup } from '../core/options/option-schema.js';
import { isDoneWithin, jittered } from '../core/util/time.js';
import { recoverableCall } from '../transports/call/call-recovery.js';
import { valueFormat } from '../transports/call/outcome-format.js';
import {
  callLevel,
  resolveModuleOptions,
  resolveOptions,
  type IdempotencyModuleOptions,
} from './options/idempotency-options.js';
import type { OperationNames } from './registry/operation-names.js';

/** How {@link IdempotencyReconciler} recovers calls; its groups merge with the module's. */
export interface RecoverableCall extends ProtocolOptions {
  readonly lease: LeaseOptions & {
    /** Looks up the business data, by the key and scope of its context. It serves every call of the operation. */
    readonly onTakeover: Recover;
  };
}

/** The reserved name of the reconciler's lock. */
const WORK = 'nestjs-idempotency/reconcile';

/** The longest time, in milliseconds, that the start waits for an unreachable store. */
const START_CHECK_TIMEOUT_MS = 2_000;

/**
 * Recovers abandoned records, whose owner died and whose client never retried: asks the operation's `onTakeover` for
 * their outcome, and completes or releases them. Routes take part by that option, plain calls once registered.
 *
 * With the module option `reconcile` it runs periodically; otherwise, call {@link reconcile}.
 */
export class IdempotencyReconciler
  implements OnApplicationBootstrap, OnModuleDestroy, BeforeApplicationShutdown
{
  private readonly schedule: ResolvedReconcileOptions | false;
  private readonly shutdownTimeoutMs: number;
  private readonly reconciliation: Reconciliation;
  private readonly runner: SingleRunner;
  private readonly calls = new Map<string, RecoverableOperation>();
  private round: Promise<ReconcileReport> | undefined;
  private timer: ClockTimer | undefined;
  private isStopping = false;

  /** @internal */
  constructor(
    private readonly engine: IdempotencyEngine,
    private readonly names: OperationNames,
    services: Services,
    private readonly defaults: IdempotencyModuleOptions,
    private readonly meter: IdempotencyMeter,
  ) {
    const options = resolveModuleOptions(defaults);
    this.schedule = options.reconcile;
    this.shutdownTimeoutMs = options.limits.shutdownTimeout;
    this.reconciliation = new Reconciliation(
      engine,
      services,
      (operation) => this.operation(operation),
      this.schedule || resolveGroup('reconcile', RECONCILE),
      options.storeErrors.commandTimeout,
    );
    this.runner = new SingleRunner(engine, WORK, options);
  }

  /**
   * Registers how abandoned calls of an operation are recovered. `run()` knows its `onTakeover` only during the
   * call.
   * @throws {@link IdempotencyOptionsError} for invalid options, and for an operation that is registered already.
   */
  register(operation: string, call: RecoverableCall): void {
    if (typeof operation !== 'string' || operation === '') {
      throwOptionError('operation', 'a non-empty string', typeof operation);
    }
    const place = `IdempotencyReconciler.register() of "${operation}"`;
    const options = within(place, place, () => {
      const level = callLevel('IdempotencyReconciler.register()', call, []);
      const resolved = resolveOptions('call', this.defaults, level);
      checkFunction('lease.onTakeover', resolved.lease.onTakeover);
      return resolved;
    });
    if (this.calls.has(operation) || this.names.has(operation)) {
      throw new IdempotencyOptionsError(
        `IdempotencyReconciler.register(): "${operation}" is registered already, or is a route or method with @Idempotent(). Register an operation once; routes and methods need no registration.`,
      );
    }
    const { outcome } = options;
    const recoverable = recoverableCall({
      options,
      keep: outcome.keep,
      format: valueFormat(outcome.codec),
    });
    if (recoverable !== undefined) this.calls.set(operation, recoverable);
    this.meter.declare(operation);
  }

  /**
   * Processes the abandoned records once, one batch at the most. Waits if this process is already doing so; does
   * nothing if another is.
   * @throws {@link StoreUnavailableError}, {@link StoreOutcomeUnknownError} or {@link StoreConfigurationError} when the
   *   store fails; the event `store_unavailable` reports it, too.
   * @throws {@link IdempotencyOptionsError} if the store cannot list records.
   */
  reconcile(): Promise<ReconcileReport> {
    this.round ??= this.runRound().finally(() => {
      this.round = undefined;
    });
    return this.round;
  }

  /** Called by Nest. Starts the periodic runs, with the option `reconcile`. */
  async onApplicationBootstrap(): Promise<void> {
    if (this.schedule === false) return;
    await this.checkStore(this.schedule);
    this.arm(this.schedule);
  }

  /** Called by Nest. Starts nothing more: the application's own connections may close next. */
  onModuleDestroy(): void {
    this.isStopping = true;
    this.engine.clock.clearTimeout(this.timer);
  }

  /** Called by Nest. Waits for the record in progress, as the shutdown does for requests. */
  async beforeApplicationShutdown(): Promise<void> {
    await isDoneWithin(this.shutdownTimeoutMs, this.round, this.engine.clock);
  }

  private async runRound(): Promise<ReconcileReport> {
    if (this.isStopping) return skippedRound();
    try {
      const report = await this.runner.runExclusively((signal) =>
        this.reportedRound(() => this.isStopping || signal.aborted),
      );
      return report ?? skippedRound();
    } catch (cause) {
      const error = asError(cause);
      const { operation, recordKey } = this.runner.subject;
      if (!hasCode(error, 'idempotency_options_invalid')) {
        const about = { operation, recordKey, source: 'reconcile', error } as const;
        this.engine.events.emit({ type: 'store_unavailable', ...about });
      }
      throw error;
    }
  }

  private async reportedRound(isOver: () => boolean): Promise<ReconcileReport> {
    const { events, clock } = this.engine;
    const startedAt = clock.now();
    const report = await this.reconciliation.round(isOver);
    events.emit({ type: 'reconciled', report, durationMs: clock.now() - startedAt });
    return report;
  }

  /** A store that cannot list records stops the start; an unreachable one does not. */
  private async checkStore({ after: overMs }: ResolvedReconcileOptions): Promise<void> {
    const asked = this.engine.store.abandoned({
      overMs,
      limit: 1,
      timeoutMs: START_CHECK_TIMEOUT_MS,
    });
    const page = await asked.catch((error: unknown) => {
      if (hasCode(error, 'idempotency_store_misconfigured')) throw error;
      return null;
    });
    if (page === undefined) {
      throw new IdempotencyOptionsError(
        'The option "reconcile" needs a "store" that lists abandoned records; the given store has no abandoned(). Use the store for Redis, PostgreSQL or memory, or remove "reconcile".',
      );
    }
  }

  private arm(schedule: ResolvedReconcileOptions): void {
    const { clock } = this.engine;
    const run = () => {
      const rearm = () => {
        if (!this.isStopping) this.arm(schedule);
      };
      this.reconcile().then(rearm, rearm);
    };
    this.timer = clock.setTimeout(run, jittered(schedule.interval, clock), undefined);
    this.timer.unref();
  }

  private operation(name: string): RecoverableOperation | undefined {
    return this.names.recoverable(name) ?? this.calls.get(name);
  }
}
