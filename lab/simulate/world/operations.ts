import type { OperationPlan } from '../plan.js';
import { JSON_CODEC } from '../../../test/support/internals/codecs.js';
import { CALLER } from '../../faults/client.js';
import {
  PROTOCOL,
  type IdempotencyContext,
  type ProtocolOptions,
  type ResolvedProtocolOptions,
  fingerprint,
  recordKey,
  type Fingerprint,
  type RecordKey,
  resolve,
} from '../../../test/support/internals/core.js';
import type { OutcomeBody, SimulatedRequest } from './request.js';
import type { World } from './world.js';

/** The bytes that are stored of one outcome, at most. */
export const MAX_BYTES = 2_000;

/** How an execution of an operation goes. */
interface Schedule {
  readonly durationMs: number;
  /** The part of the duration before the effect. */
  readonly before: number;
  readonly end: 'returns' | 'fails' | 'declines';
  /** The computing that nothing interrupts, in the middle. */
  readonly blockMs: number;
  readonly asksSignal: boolean;
}

export const FAILURES = { 400: 'invalid', 402: 'declined', 500: 'failed' };

/** Thrown by an operation, or by a pipe before it. */
export class OperationError extends Error {
  constructor(readonly status: keyof typeof FAILURES) {
    super(FAILURES[status]);
    this.name = 'OperationError';
  }
}

/** An operation as its own developer knows it: its options, and what it does to the world. */
export class SimulatedOperation {
  readonly name: string;
  readonly options: ResolvedProtocolOptions;

  constructor(
    readonly world: World,
    readonly plan: OperationPlan,
    index: number,
  ) {
    this.name = `operation-${index}`;
    this.options = resolve(PROTOCOL, [{ what: this.name, place: 'call', given: this.given() }]);
  }

  recordKeyOf(key: string): RecordKey {
    return recordKey({ scope: [CALLER], operation: this.name, key });
  }

  fingerprintOf(content: string): Fingerprint {
    return fingerprint([this.name, content]);
  }

  /** Runs it once. Not by the library's word: what it did stands in the ledger. */
  async run(request: SimulatedRequest, context: IdempotencyContext): Promise<OutcomeBody> {
    const { world } = this;
    const { process } = request;
    process.operations.add(request);
    const ends = world.rules.operations.starts(request, context);
    const schedule = this.draw();
    if (schedule.asksSignal) void this.watchLease(request, context);
    try {
      await process.sleep(schedule.durationMs * schedule.before);
      if (schedule.blockMs > 0) {
        world.fault('block', process);
        await process.compute(schedule.blockMs);
      }
      // Before its effect: nothing is repeated where it runs again.
      if (schedule.end === 'fails') throw new OperationError(500);
      if (schedule.end === 'declines') throw new OperationError(402);
      const isStopped = schedule.asksSignal && world.rules.operations.readsSignal(request, context);
      if (isStopped) throw new OperationError(500);
      if (!request.succeed()) throw new OperationError(500);
      const body = world.effect(request, context);
      await process.sleep(schedule.durationMs * (1 - schedule.before));
      world.rules.operations.returns(request, context);
      return body;
    } finally {
      ends();
      process.operations.delete(request);
    }
  }

  /** As long as the operation runs: once its lease is over, it has to know. */
  private async watchLease(request: SimulatedRequest, context: IdempotencyContext): Promise<void> {
    const { process } = request;
    const recordKey = this.recordKeyOf(context.key);
    while (process.operations.has(request) && !context.signal.aborted) {
      const until = process.store.leases.until(recordKey, context.fencingToken);
      if (until === undefined) return;
      await process.sleep(Math.max(1, until - process.clock.now()) + 7);
      if (process.operations.has(request)) {
        this.world.rules.operations.readsSignal(request, context);
      }
    }
  }

  /** What an earlier attempt did, by the ledger. */
  private async recover(context: IdempotencyContext): Promise<'run' | { value: OutcomeBody }> {
    const { coverage, ledger, operationRandom, outcomes, rules } = this.world;
    const recordKey = this.recordKeyOf(context.key);
    rules.operations.looksUp(recordKey, context);
    const found = ledger.find(({ key }) => key === context.key);
    if (operationRandom.chance(0.05)) {
      coverage.count('recoveries', 'failed');
      // Before the operation was entered, no failure is kept. After that, it is as its policy says.
      throw new OperationError(rules.operations.hasStarted(recordKey, context) ? 500 : 400);
    }
    coverage.count('recoveries', found === undefined ? 'run' : 'found');
    if (found === undefined) return 'run';
    rules.operations.found(recordKey, context);
    return { value: outcomes.get(found.execution)! };
  }

  private draw(): Schedule {
    const { world } = this;
    const { operationRandom: random } = world;
    const { leaseMs, maxExecutionMs } = this.plan;
    const kind = random.fraction();
    const hasFaults = world.plan.faults.length > 0;
    const durationMs =
      kind < 0.75
        ? random.integer(0, 20)
        : kind < 0.9
          ? random.integer(20, leaseMs)
          : kind < 0.96 || !hasFaults
            ? random.integer(leaseMs, Math.min(3 * leaseMs, maxExecutionMs / 2))
            : random.integer(maxExecutionMs / 2, maxExecutionMs * (kind < 0.993 ? 1.5 : 5));
    const end = random.fraction();
    const blocks = world.has('block') && !world.isHealed && random.chance(0.05);
    return {
      durationMs,
      before: random.pick([0, 0.5, 1, random.fraction()]),
      end: end < 0.12 ? 'fails' : end < 0.2 ? 'declines' : 'returns',
      blockMs: blocks ? random.integer(1, 3 * leaseMs) : 0,
      asksSignal: random.chance(0.5),
    };
  }

  private given(): ProtocolOptions {
    const { plan } = this;
    return {
      outcome: {
        maxBytes: MAX_BYTES,
        storeBody: !plan.storesNothing,
        retention: plan.retentionMs,
        codec: JSON_CODEC,
        keep: keeps,
      },
      duplicates: { mode: plan.duplicates, timeout: plan.waitMs },
      lease: {
        duration: plan.leaseMs,
        maxExecution: plan.maxExecutionMs,
        onTakeover:
          plan.onTakeover === 'recover' ? (context) => this.recover(context) : plan.onTakeover,
      },
      storeErrors: {
        whenNotSaved: plan.whenNotSaved,
        whenUnavailable: plan.whenUnavailable,
        commandTimeout: plan.commandTimeoutMs,
        saveTimeout: plan.saveTimeoutMs,
      },
    };
  }
}

/** Keeps successes and what was declined, on every transport. */
function keeps({ status, error }: { status?: number; error?: unknown }): boolean {
  if (error instanceof OperationError) return error.status < 500;
  return status === undefined ? error === undefined : status < 500;
}
