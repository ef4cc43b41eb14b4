import type {
  IdempotencyEvent,
  Lease,
  RecordKey,
  Begin,
  BeginReply,
  Complete,
  CompleteReply,
  ExtendReply,
} from '../../../test/support/internals/core.js';
import type { SimulatedProcess } from '../world/simulated-process.js';
import { attemptOf, attemptsOf, RuleBase, SLACK_MS } from './rule-base.js';

/** What a worker sends for its attempts, and what it does with the replies. */
export class AttemptRules extends RuleBase {
  /** Tokens whose begin was sent since they were last examined. */
  private readonly begunTokens = new Set<string>();

  begins(process: SimulatedProcess, { token, notAfter }: Begin): void {
    this.begunTokens.add(token);
    if (notAfter === 0 && process.store.knowsClock) {
      this.object('a begin has no limit, though its sender knows the time of the store');
    }
  }

  begun(process: SimulatedProcess, { recordKey, token }: Begin, reply: BeginReply): void {
    if (reply.kind !== 'abandoned' || process.isDraining) return;
    if (this.operationOf(recordKey).plan.onTakeover === 'reject') return;
    const own = process.store.leases.of(recordKey, reply.fence);
    if (own === undefined || process.clock.now() < own.deadline) return;
    // Another begin, or one without a reply whose operation runs without protection, may have the record.
    if (process.store.isBeginning(recordKey)) return;
    // With a later token, the reply was slow: the process has taken the record over since.
    const mayHaveIt = (fence: number) => fence === 0 || fence > reply.fence;
    if (attemptsOf(process, recordKey).some((own) => mayHaveIt(own.fencingToken))) return;
    this.begunTokens.delete(token);
    this.next(process, () => {
      const hasBegun = this.begunTokens.has(token);
      if (!hasBegun) this.object('a process keeps a key past the hard deadline of its attempt');
    });
  }

  extends(process: SimulatedProcess, { recordKey, fence, token }: Lease): void {
    const log = this.logs.of(recordKey, fence);
    log.token = token;
    log.extendedAt = process.time();
    const attempt = attemptOf(process, recordKey, fence);
    if (attempt === undefined) this.object('an attempt that has ended extends its lease');
    else if (log.isRunning) this.checkSignal(process, recordKey, fence, attempt.signal.aborted);
  }

  extended(process: SimulatedProcess, { recordKey, fence }: Lease, { kind }: ExtendReply): void {
    const log = this.logs.of(recordKey, fence);
    log.hasLost ||= kind !== 'ok' && kind !== 'revived';
    const isLost = kind === 'lost' || kind === 'gone' || kind === 'max_execution';
    this.next(process, () => {
      this.checkLeaseLeft(process, recordKey, fence);
      // Once its outcome was sent, its operation has ended.
      if (!isLost || !log.isRunning || log.completedAt !== undefined) return;
      if (attemptOf(process, recordKey, fence)?.signal.aborted === false) {
        this.object(`an attempt goes on though its lease is ${kind}`);
      }
    });
  }

  completes(
    process: SimulatedProcess,
    { recordKey, fence }: Lease,
    { outcome, state }: Complete,
  ): void {
    const log = this.logs.of(recordKey, fence);
    log.completes += 1;
    log.completedAt ??= process.time();
    const { leaseMs } = this.operationOf(recordKey).plan;
    const isRepeated = process.time() - log.completedAt > leaseMs / 2;
    if (isRepeated) this.checkHeartbeats(process, recordKey, fence);
    const isFailure = isFailureHeader(outcome.header);
    if (isFailure !== undefined && isFailure !== (state === 'failed')) {
      this.object(`a ${isFailure ? 'failure' : 'success'} is stored as ${state}`);
    }
    if (isFailure === true && log.hasReturned && !log.events.has('response_diverged')) {
      this.object('a success that became a failure is not reported');
    }
  }

  completed(process: SimulatedProcess, { recordKey, fence }: Lease, reply: CompleteReply): void {
    const log = this.logs.of(recordKey, fence);
    if (reply.kind === 'gone') log.goneAt = process.time();
    if (fence === 0) return;
    log.hasLost ||= reply.kind === 'lost';
    log.isOverruled =
      reply.kind === 'superseded' || (reply.kind === 'lost' && reply.state !== 'released');
    const reports = reportsOf(reply);
    if (reports === undefined) return;
    this.next(process, () => {
      if (!reports.some((type) => log.events.has(type))) {
        this.object(`no event says that an outcome is ${reply.kind}`);
      }
    });
  }

  releases(process: SimulatedProcess, { recordKey, fence }: Lease): void {
    if (fence !== 0) this.logs.of(recordKey, fence).releasedAt ??= process.time();
  }

  released({ recordKey, fence }: Lease): void {
    if (fence !== 0) this.logs.of(recordKey, fence).isReleased = true;
  }

  /** While its operation runs, an attempt whose lease is over has to know it (protocol, rule 2). */
  checkSignal(
    process: SimulatedProcess,
    recordKey: string,
    fence: number,
    isAborted: boolean,
  ): void {
    if (fence !== 0 && !isAborted && this.isLeaseOver(process, recordKey, fence)) {
      this.object('an operation was not notified that its lease was over');
    }
  }

  /** A heartbeat comes each third of a lease, until the end of the attempt is confirmed (protocol, rule 2). */
  checkHeartbeats(process: SimulatedProcess, recordKey: RecordKey, fence: number): void {
    const log = this.logs.find(recordKey, fence);
    const lease = process.store.leases.of(recordKey, fence);
    if (log === undefined || lease === undefined || log.releasedAt !== undefined) return;
    if (log.hasLost || attemptOf(process, recordKey, fence) === undefined) return;
    const { leaseMs } = this.operationOf(recordKey).plan;
    const now = process.time();
    // A slow reply to begin has been confirmed by an extend.
    const begunAt = now - (process.clock.now() - lease.knownAt);
    const sentAt = Math.max(log.extendedAt, begunAt);
    const hasStoodStill = process.busyUntil >= sentAt;
    if (hasStoodStill || process.clock.now() >= lease.deadline - SLACK_MS) return;
    // One without a reply is under way for a quarter of the lease, and the next one a twelfth after it.
    if (now - sentAt > leaseMs / 2 + 3 * SLACK_MS) {
      this.object('an attempt sent no heartbeat in time');
    }
  }

  /** An attempt relies on its lease for no longer than was granted, from when that was asked for (rule 1). */
  checkLeaseLeft(process: SimulatedProcess, recordKey: RecordKey, fence: number): void {
    const leftMs = attemptOf(process, recordKey, fence)?.leaseLeftMs;
    const until = process.store.leases.until(recordKey, fence);
    if (leftMs === undefined || until === undefined) return;
    // Sums of fractions.
    if (leftMs > until - process.clock.now() + 0.01) {
      this.object('an attempt relies on its lease for too long');
    }
  }
}

/** The events one of which says so. */
function reportsOf({ kind }: CompleteReply): IdempotencyEvent['type'][] | undefined {
  switch (kind) {
    case 'superseded':
      return ['superseded', 'outcome_diverged'];
    case 'restored':
    case 'gone':
      return ['record_lost'];
    default:
      return undefined;
  }
}

/** `undefined` where the header does not say so. */
function isFailureHeader(header: string): boolean | undefined {
  const parsed = JSON.parse(header) as
    readonly [format: number, status?: number] | { readonly kind: string };
  if (!('kind' in parsed)) return parsed[1] === undefined ? undefined : parsed[1] >= 400;
  return parsed.kind === 'not_kept' ? undefined : parsed.kind === 'failure';
}
