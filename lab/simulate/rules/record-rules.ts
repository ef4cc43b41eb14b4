import type {
  RecordKey,
  StoredRecord,
  AbandonedPage,
  BeginReply,
  CompleteReply,
} from '../../../test/support/internals/core.js';
import { kindOf } from '../world/commands.js';
import type { RecordServer } from '../world/record-server.js';
import type { World } from '../world/world.js';
import type { AttemptLogs } from './attempt-log.js';
import { RuleBase, type Executed } from './rule-base.js';

/** The reconcilers' option `after`. */
export const ABANDONED_AFTER_MS = 100;

type Live = NonNullable<Executed['before']>;

/** What a server may do with a record, whatever the workers do. */
export class RecordRules extends RuleBase {
  private readonly expiries = new Map<RecordKey, number>();
  /** The latest that the server's clock has shown. */
  private latestMs = 0;

  constructor(
    world: World,
    logs: AttemptLogs,
    private readonly server: RecordServer,
  ) {
    super(world, logs);
  }

  /** The record was lost. */
  forget(recordKey: RecordKey): void {
    this.expiries.delete(recordKey);
  }

  /** The server's clock is about to step back. */
  stepsBack(): void {
    this.latestMs = Math.max(this.latestMs, Math.floor(this.server.nowMs));
  }

  executed(step: Executed): void {
    this.checkExpiry(step);
    const { before, command, nowMs } = step;
    const live = before !== undefined && before.expiresAt > nowMs ? before : undefined;
    if (live !== undefined) this.checkLive(step, live);
    switch (command.name) {
      case 'begin':
        this.granted({ ...step, command });
        this.checkRetention({ ...step, command });
        if (live !== undefined) this.checkBegin({ ...step, command }, live);
        break;
      case 'complete':
        this.checkComplete({ ...step, command }, live);
        break;
      case 'release':
        this.checkRelease({ ...step, command }, live);
        break;
      case 'extend':
      case 'inspect':
        break;
    }
  }

  listed({ records }: AbandonedPage): void {
    for (const { recordKey } of records) {
      const record = this.server.recordOf(recordKey);
      if (record?.state !== 'in_progress') continue;
      const overMs = this.server.nowMs - record.leaseUntil;
      if (overMs < ABANDONED_AFTER_MS - 1) this.object('a record is listed as abandoned too early');
    }
  }

  private granted({ command, reply }: Executed<'begin'>): void {
    const begun = reply as BeginReply;
    const isGranted = begun.kind === 'acquired' || begun.kind === 'takeover';
    if (isGranted) this.logs.begin(command.recordKey, begun.fence);
  }

  /** From the millisecond of its expiry there is no record, and its key is unused. */
  private checkExpiry({ before, after, command, nowMs, reply }: Executed): void {
    const { recordKey } = command;
    const now = Math.floor(nowMs);
    const expiresAt = before?.expiresAt ?? this.expiries.get(recordKey);
    const isGone = before === undefined || before.expiresAt <= now;
    if (isGone && expiresAt !== undefined) {
      const key = this.world.keyOf(recordKey);
      if (expiresAt > Math.max(this.latestMs, now)) {
        this.object(`the record of ${key} disappeared too early`);
      }
      const isReplay = ['completed', 'failed', 'already', 'superseded'].includes(kindOf(reply));
      if (isReplay) this.object(`${key} was replayed after its retention`);
      this.server.expired(recordKey);
    }
    if (after !== undefined) this.expiries.set(recordKey, after.expiresAt);
  }

  private checkLive({ after, command }: Executed, before: Live): void {
    const what = `${command.name} of ${this.world.keyOf(command.recordKey)}`;
    if (after === undefined) {
      this.object(`a live record disappeared by ${what}`);
      return;
    }
    if (after.fence < before.fence) this.object(`a fence went back by ${what}`);
    if ('outcome' in before && !isSameOutcome(before, after)) {
      this.object(`a stored outcome changed by ${what}`);
    }
  }

  /** A record outlives its lease, so that a takeover is seen. */
  private checkRetention({ after, command, reply, nowMs }: Executed<'begin'>): void {
    const { kind } = reply as BeginReply;
    const isHeld = kind === 'acquired' || kind === 'takeover' || kind === 'owned';
    const leftMs = (after?.expiresAt ?? 0) - nowMs;
    if (isHeld && leftMs < command.args.recordRetentionMs - 1) {
      this.object('a record is kept for too short');
    }
  }

  private checkBegin({ command, reply }: Executed<'begin'>, before: Live): void {
    const { args, recordKey } = command;
    const { kind } = reply as BeginReply;
    const key = this.world.keyOf(recordKey);
    const isOwn = before.token === args.token;
    if (before.state === 'released') {
      if (isOwn && kind !== 'stale_begin') {
        this.object(`a copy of a begin acquired ${key}, which its attempt had released`);
      }
      return;
    }
    if ((before.fingerprint !== args.fingerprint) !== (kind === 'mismatch')) {
      this.object(`begin of ${key} compared contents to ${kind}`);
    }
    if (kind === 'mismatch') this.world.mismatches.add(`${key} ${args.fingerprint}`);
    if (before.state !== 'in_progress') return;
    if (isOwn && kind !== 'owned' && kind !== 'mismatch') {
      this.object(`the owner of ${key} got the reply ${kind}`);
    }
    if (this.operationOf(recordKey).plan.onTakeover !== 'reject') return;
    if (kind === 'abandoned') this.world.unknownOutcomes.add(key);
    if (kind === 'takeover') this.object(`${key} was taken over under "reject"`);
  }

  private checkComplete(
    { before: stored, after, command, reply }: Executed<'complete'>,
    before: Live | undefined,
  ): void {
    const { lease, args } = command;
    const { kind } = reply as CompleteReply;
    const isOwn = before?.token === lease.token;
    const isSuccess = args.state === 'completed';
    if (kind === 'gone' && isSuccess) this.object('a success is not restored');
    if (kind === 'restored' && !isSuccess) {
      this.object('a failure was stored though its record was gone');
    }
    if (before === undefined) return;
    const fits = lease.fence === 0 || lease.fence === before.fence;
    if (before.state === 'in_progress' && isOwn && fits && kind === 'lost') {
      this.object('the owner of a record could not complete it');
    }
    if (before.state === 'released' && isSuccess) {
      if (isOwn) this.object('an attempt that has released its record has had an effect');
      else if (kind !== 'ok_late')
        this.object('a success was rejected, though no attempt has the record');
    }
    if (kind === 'superseded' && before.fingerprint !== args.fingerprint) {
      this.object('an outcome of other content is the response to an attempt');
    }
    if (kind === 'lost' && 'outcome' in before) {
      this.world.unknownOutcomes.add(this.world.keyOf(command.recordKey));
    }
    const isHeld = before.state === 'in_progress' && isOwn;
    if (after !== stored && after?.state === 'failed' && !isHeld) {
      this.object('a failure was stored by an attempt that does not hold the record');
    }
  }

  private checkRelease(
    { after, command, reply, nowMs, process }: Executed<'release'>,
    before: Live | undefined,
  ): void {
    if (kindOf(reply) !== 'ok' || before === undefined) return;
    const log = this.logs.find(command.recordKey, before.fence);
    if (log?.isRunning === true && process.isAlive) {
      this.object('a record was released while its operation ran');
    }
    if (log?.hasReturned === true) this.object('a record was released after its effect');
    if (log?.hasFound === true) this.object('a record was released though its effect was found');
    const tombstoneMs = (after?.expiresAt ?? 0) - nowMs;
    if (tombstoneMs < command.args.tombstoneMs - 1) this.object('a release left no tombstone');
  }
}

function isSameOutcome(before: Extract<Live, { outcome: unknown }>, after: StoredRecord): boolean {
  return (
    'outcome' in after &&
    after.state === before.state &&
    after.outcome.header === before.outcome.header &&
    Buffer.compare(Buffer.from(after.outcome.body), Buffer.from(before.outcome.body)) === 0
  );
}
