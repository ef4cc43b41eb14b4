import type { IdempotencyContext, RecordKey } from '../../../test/support/internals/core.js';
import type { SimulatedRequest } from '../world/request.js';
import { RuleBase, SLACK_MS } from './rule-base.js';

/** When an operation may run, and what its context says. */
export class OperationRules extends RuleBase {
  /** The attempt that a request runs with. */
  private readonly fences = new Map<number, number>();
  /** When the operation of a request returned, in the time of its process. */
  private readonly returnedAt = new Map<number, number>();

  /** @returns what to call at its end. */
  starts(request: SimulatedRequest, context: IdempotencyContext): () => void {
    const { process, intent } = request;
    const { fencingToken: fence, isProtected } = context;
    const recordKey = intent.operation.recordKeyOf(intent.key);
    const log = this.logs.of(recordKey, fence);
    this.fences.set(request.id, fence);
    if (isProtected !== (fence !== 0)) {
      this.object('an operation is not notified how it is protected');
    }
    if (log.startedAt === undefined) this.checkStart(request, recordKey, fence);
    this.checkTakeover(request, context);
    this.world.rules.attempts.checkLeaseLeft(process, recordKey, fence);
    log.startedAt ??= process.time();
    log.isRunning = true;
    return () => {
      log.isRunning = false;
    };
  }

  /** It asks whether to stop. */
  readsSignal({ process, intent }: SimulatedRequest, context: IdempotencyContext): boolean {
    const { signal, fencingToken } = context;
    const { aborted } = signal;
    this.world.coverage.count('signals', aborted ? 'aborted' : 'not aborted');
    const recordKey = intent.operation.recordKeyOf(intent.key);
    this.world.rules.attempts.checkSignal(process, recordKey, fencingToken, aborted);
    return aborted;
  }

  /** It returns a value that its policy keeps. */
  returns(request: SimulatedRequest, context: IdempotencyContext): void {
    const { process, intent, id } = request;
    if (context.fencingToken === 0 || !process.isAlive) return;
    this.readsSignal(request, context);
    this.returnedAt.set(id, process.time());
    this.logs.of(intent.operation.recordKeyOf(intent.key), context.fencingToken).hasReturned = true;
  }

  looksUp(recordKey: RecordKey, { fencingToken: fence, isTakeover }: IdempotencyContext): void {
    if (!isTakeover) this.object('a first attempt looks up what was done before');
    this.logs.of(recordKey, fence).hasLookedUp = true;
  }

  found(recordKey: RecordKey, { fencingToken: fence }: IdempotencyContext): void {
    this.logs.of(recordKey, fence).hasFound = true;
  }

  hasStarted(recordKey: RecordKey, { fencingToken: fence }: IdempotencyContext): boolean {
    return this.logs.of(recordKey, fence).startedAt !== undefined;
  }

  /** @returns `undefined` where none has run. */
  fenceOf({ id }: SimulatedRequest): number | undefined {
    return this.fences.get(id);
  }

  returnedAtOf({ id }: SimulatedRequest): number | undefined {
    return this.returnedAt.get(id);
  }

  private checkStart({ process }: SimulatedRequest, recordKey: RecordKey, fence: number): void {
    if (process.isDraining) this.object('an operation started during the shutdown');
    const until = process.store.leases.until(recordKey, fence);
    if (until !== undefined && process.clock.now() > until + SLACK_MS) {
      this.object('an operation started after its lease');
    }
  }

  /** After an attempt whose outcome is unknown, it only runs as its options allow. */
  private checkTakeover({ intent }: SimulatedRequest, context: IdempotencyContext): void {
    if (!context.isTakeover) return;
    const { onTakeover } = intent.operation.plan;
    if (onTakeover === 'reject') this.object('an operation ran again, which its options forbid');
    if (onTakeover !== 'recover') return;
    const log = this.logs.of(intent.operation.recordKeyOf(intent.key), context.fencingToken);
    if (!log.hasLookedUp) this.object('a takeover did not look up what had been done');
    if (log.hasFound) this.object('an operation ran again though its effect was found');
  }
}
