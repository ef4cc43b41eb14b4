import type {
  BeforeApplicationShutdown,
  OnApplicationBootstrap,
  OnModuleDestroy,
} from '@nestjs/common';
import type { IdempotencyEngine } from '../core/engine/idempotency-engine.js';
import { PROTOCOL_DEFAULTS, type ProtocolOptions } from '../core/operation/options.js';
import { keepSuccesses, type OutcomePolicy } from '../core/operation/outcome-policy.js';
import type { Recover, Services } from '../core/operation/recovery.js';
import {
  skippedRound,
  RECONCILE_DEFAULTS,
  Reconciliation,
  resolveReconcileOptions,
  type ReconcileReport,
  type ResolvedReconcileOptions,
} from '../core/recovery/reconcile.js';
import type { RecoverableOperation } from '../core/recovery/recover-record.js';
import { SingleRunner } from '../core/recovery/single-runner.js';
import { asError, hasCode, IdempotencyOptionsError } from '../core/util/errors.js';
import { checkFunction, checkNames, throwOptionError, within } from '../core/util/option-checks.js';
import { isDoneWithin, jittered } from '../core/util/time.js';
import { recoverableCall } from '../transports/call/call-recovery.js';
import { valueFormat } from '../transports/call/outcome-format.js';
import type { ValueOptions } from '../transports/call/value-route.js';
import {
  OPERATION_REMEDIES,
  resolveEngineOptions,
  resolveOptions,
  type IdempotencyModuleOptions,
} from './options/idempotency-options.js';
import type { RouteRegistry } from './registry/route-registry.js';

/** How {@link IdempotencyReconciler} recovers calls; the protocol's options default to the module's. */
export interface RecoverableCall extends ProtocolOptions, ValueOptions {
  /** Looks up the business data, by the key and scope of its context. It serves every call of the operation. */
  readonly onTakeover: Recover;
  /** As in {@link IdempotentCall.keep}. */
  readonly keep?: OutcomePolicy;
}

const CALL_NAMES = new Set([...Object.keys(PROTOCOL_DEFAULTS), 'keep', 'codec']);

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
  private readonly schedule: ResolvedReconcileOptions | undefined;
  private readonly shutdownTimeoutMs: number;
  private readonly reconciliation: Reconciliation;
  private readonly runner: SingleRunner;
  private readonly calls = new Map<string, RecoverableOperation>();
  private round: Promise<ReconcileReport> | undefined;
  private timer: NodeJS.Timeout | undefined;
  private isStopping = false;

  /** @internal */
  constructor(
    private readonly engine: IdempotencyEngine,
    private readonly routes: RouteRegistry,
    services: Services,
    private readonly defaults: IdempotencyModuleOptions,
  ) {
    this.schedule = resolveReconcileOptions(defaults.reconcile);
    this.shutdownTimeoutMs = resolveEngineOptions(defaults).shutdownTimeoutMs;
    const { protocol } = resolveOptions(defaults);
    this.reconciliation = new Reconciliation(
      engine,
      services,
      (operation) => this.operation(operation),
      this.schedule ?? RECONCILE_DEFAULTS,
      protocol.commandTimeoutMs,
    );
    this.runner = new SingleRunner(engine.store, WORK, protocol);
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
    checkNames('IdempotencyReconciler.register()', call, CALL_NAMES, OPERATION_REMEDIES);
    const { onTakeover, keep = keepSuccesses, ...own } = call;
    const place = `IdempotencyReconciler.register() of "${operation}"`;
    const { protocol, http, codec } = within(place, place, () => {
      checkFunction('onTakeover', onTakeover);
      checkFunction('keep', keep);
      return resolveOptions(this.defaults, own);
    });
    if (this.calls.has(operation) || this.routes.isNamed(operation)) {
      throw new IdempotencyOptionsError(
        `IdempotencyReconciler.register(): "${operation}" is registered already, or is a route or method with @Idempotent(). Register an operation once; routes and methods need no registration.`,
      );
    }
    const options = Object.freeze({ ...protocol, onTakeover });
    const { maxStoredBytes } = http;
    const format = valueFormat(codec);
    this.calls.set(operation, recoverableCall(options, { keep, format, maxStoredBytes }));
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
    if (this.schedule === undefined) return;
    await this.checkStore(this.schedule);
    this.arm(this.schedule);
  }

  /** Called by Nest. Starts nothing more: the application's own connections may close next. */
  onModuleDestroy(): void {
    this.isStopping = true;
    clearTimeout(this.timer);
  }

  /** Called by Nest. Waits for the record in progress, as the shutdown does for requests. */
  async beforeApplicationShutdown(): Promise<void> {
    await isDoneWithin(this.shutdownTimeoutMs, this.round);
  }

  private async runRound(): Promise<ReconcileReport> {
    if (this.isStopping) return skippedRound();
    try {
      const report = await this.runner.runExclusively((signal) =>
        this.reconciliation.round(() => this.isStopping || signal.aborted),
      );
      return report ?? skippedRound();
    } catch (cause) {
      const error = asError(cause);
      const { operation, recordKey } = this.runner.subject;
      if (!hasCode(error, 'idempotency_options_invalid')) {
        this.engine.events.emit({ type: 'store_unavailable', operation, recordKey, error });
      }
      throw error;
    }
  }

  /** A store that cannot list records stops the start; an unreachable one does not. */
  private async checkStore({ afterMs: overMs }: ResolvedReconcileOptions): Promise<void> {
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
    this.timer = setTimeout(() => {
      const rearm = () => {
        if (!this.isStopping) this.arm(schedule);
      };
      this.reconcile().then(rearm, rearm);
    }, jittered(schedule.intervalMs));
    this.timer.unref();
  }

  private operation(name: string): RecoverableOperation | undefined {
    return this.routes.recoverable(name) ?? this.calls.get(name);
  }
}
