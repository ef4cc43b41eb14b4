import type { IdempotencyEvent, RecordKey } from '../../../test/support/internals/core.js';
import type { SimulatedProcess } from '../world/simulated-process.js';
import { RuleBase, SLACK_MS } from './rule-base.js';

type EventOf<Type extends IdempotencyEvent['type']> = Extract<IdempotencyEvent, { type: Type }>;

/** Whether events say what has happened. */
export class EventRules extends RuleBase {
  emitted(process: SimulatedProcess, event: IdempotencyEvent): void {
    if (event.recordKey === undefined) return;
    const { recordKey } = event as { recordKey: RecordKey };
    const { fencingToken = 0 } = event as { fencingToken?: number };
    this.logs.of(recordKey, fencingToken).events.add(event.type);
    switch (event.type) {
      case 'takeover':
        this.checkTakeover(recordKey);
        break;
      case 'replayed':
        this.checkReplay(event);
        break;
      case 'lease_lost':
        this.checkLoss(process, event);
        break;
      case 'waited':
        this.checkWait(process, event);
        break;
      case 'ended':
        this.checkEnd(process, event);
        break;
      default:
    }
  }

  private checkTakeover(recordKey: RecordKey): void {
    const key = this.world.keyOf(recordKey);
    if (!this.isForgotten(key) && !this.world.takenOver.has(key)) {
      this.object('a takeover is reported, but was none');
    }
  }

  private checkReplay({ recordKey, state }: EventOf<'replayed'>): void {
    if (this.isForgotten(this.world.keyOf(recordKey))) return;
    const record = this.world.serverOf(recordKey).recordOf(recordKey);
    if (record !== undefined && 'outcome' in record && record.state !== state) {
      this.object(`a replay is reported as ${state}`);
    }
  }

  private checkLoss(process: SimulatedProcess, event: EventOf<'lease_lost'>): void {
    const { fencingToken, reason, recordKey } = event;
    const record = this.world.serverOf(recordKey).recordOf(recordKey);
    // An outcome restored where another attempt's record has expired keeps that one's fencing token.
    const { token } = this.logs.of(recordKey, fencingToken);
    const hasEnded =
      record !== undefined && record.token === token && record.state !== 'in_progress';
    if (reason === 'lost' && hasEnded) {
      this.object('an attempt that ended its record is reported to have lost it');
    }
    if (reason === 'expired' && this.isUntroubled(process)) {
      this.object('a lease expired without a fault');
    }
  }

  private checkWait(process: SimulatedProcess, { recordKey, waitedMs }: EventOf<'waited'>): void {
    const { maxWaiters } = this.world.plan;
    if ([...process.engine.waiting()].length > maxWaiters) {
      this.object(`more than ${maxWaiters} duplicates wait`);
    }
    // The last poll may be under way for some milliseconds when its time is over.
    const limitMs = this.operationOf(recordKey).plan.waitMs + 6 * SLACK_MS;
    if (waitedMs > limitMs && this.isUntroubled(process)) {
      this.object('a duplicate waits for too long');
    }
  }

  private checkEnd(process: SimulatedProcess, event: EventOf<'ended'>): void {
    const { recordKey, fencingToken, how } = event;
    const log = this.logs.of(recordKey, fencingToken);
    if (how === 'unsaved') {
      if (log.completes === 0) this.object('an outcome was given up before it was sent');
      // A failure is not stored where its record is gone.
      if (log.goneAt !== process.time()) this.checkUnsaved(process, event);
    }
    if (log.hasFound && !log.events.has('recovered')) {
      this.object('no event says that an effect was found');
    }
  }

  /** Saving goes on until the hard deadline, or the end of the shutdown. */
  private checkUnsaved(process: SimulatedProcess, event: EventOf<'ended'>): void {
    const { recordKey, fencingToken, durationMs } = event;
    const { leaseMs, maxExecutionMs } = this.operationOf(recordKey).plan;
    // Without a lease it is tried for the length of one.
    const limitMs = fencingToken === 0 ? leaseMs : maxExecutionMs;
    if (durationMs >= limitMs - SLACK_MS || process.engine['services'].attempts.shutdown.isOver)
      return;
    this.object(
      `the outcome of ${this.world.keyOf(recordKey)} was given up after ${Math.round(durationMs)} ms`,
    );
  }
}
