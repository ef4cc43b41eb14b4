import type {
  Lease,
  RecordKey,
  Begin,
  BeginReply,
  CompleteReply,
  ExtendReply,
} from '../../../test/support/internals/core.js';
import { kindOf, type Command } from '../world/commands.js';
import type { RecordServer } from '../world/record-server.js';
import type { SimulatedProcess } from '../world/simulated-process.js';
import type { World } from '../world/world.js';
import type { AttemptLogs } from './attempt-log.js';
import { attemptOf, RuleBase, SLACK_MS, type Executed } from './rule-base.js';

/** The attempt that has a record, by the commands that were executed. */
interface Owner {
  readonly process: SimulatedProcess;
  readonly token: string;
  readonly fence: number;
  readonly deadline: number;
  /** A copy of its begin was executed after the sender had given up: the server's clock was set back. */
  readonly isLate: boolean;
  leaseMs: number;
  leaseUntil: number;
  /** By the scheduler's time. */
  renewedAt: number;
}

/** What an owner sends. */
type OwnCommand = Pick<Extract<Command, { lease: Lease }>, 'recordKey' | 'lease'>;

/** Who may have a record, and until when. Of one server. */
export class OwnerRules extends RuleBase {
  private readonly owners = new Map<RecordKey, Owner>();
  private readonly fences = new Map<RecordKey, number>();

  constructor(
    world: World,
    logs: AttemptLogs,
    private readonly server: RecordServer,
  ) {
    super(world, logs);
  }

  /** The record was lost. */
  forget(recordKey: RecordKey): void {
    this.owners.delete(recordKey);
    this.fences.delete(recordKey);
  }

  /** A replica has an older lease of the same attempt. */
  revertLease(recordKey: RecordKey, leaseUntil: number): void {
    const owner = this.owners.get(recordKey);
    if (owner !== undefined) owner.leaseUntil = Math.min(owner.leaseUntil, leaseUntil);
  }

  /** The server's clock: a lease that lies further ahead than its length is shortened to it. */
  steppedBack(): void {
    const { nowMs } = this.server;
    for (const owner of this.owners.values()) {
      owner.leaseUntil = Math.min(owner.leaseUntil, nowMs + owner.leaseMs);
    }
  }

  executed(step: Executed): void {
    const { command, reply } = step;
    switch (command.name) {
      case 'begin':
        this.begun({ ...step, command }, reply as BeginReply);
        break;
      case 'extend':
        this.extended({ ...step, command }, reply as ExtendReply);
        break;
      case 'complete':
        this.completed({ ...step, command }, reply as CompleteReply);
        break;
      case 'release':
        if (kindOf(reply) === 'ok') this.ended(command);
        break;
      case 'inspect':
        break;
    }
  }

  private begun(step: Executed<'begin'>, reply: BeginReply): void {
    const { command, nowMs, process } = step;
    const { recordKey, args } = command;
    const { token, leaseMs, maxExecutionMs } = args;
    const owner = this.owners.get(recordKey);
    const key = this.world.keyOf(recordKey);
    if (reply.kind === 'owned') {
      if (owner === undefined) return;
      if (owner.token !== token) this.object(`another attempt was granted ${key} as its own`);
      this.renew(owner, leaseMs, nowMs);
      return;
    }
    if (reply.kind !== 'acquired' && reply.kind !== 'takeover') return;
    const isLate = this.checkInTime(step, key);
    if (reply.fence <= (this.fences.get(recordKey) ?? 0)) {
      this.object(`the fence of ${key} did not grow`);
    }
    if (owner !== undefined) {
      if (nowMs < owner.leaseUntil - 1) {
        this.object(`${key} was given away before its lease was over`);
      }
      if (reply.kind === 'acquired') this.object(`${key} was taken over without a report`);
      this.checkExcuse(key, recordKey, owner, nowMs);
      this.checkReleased(key, recordKey, owner);
      if (owner.process === process) this.checkOwn(key, args, owner);
      for (const each of this.world.living()) {
        this.world.rules.attempts.checkHeartbeats(each, recordKey, owner.fence);
      }
    } else if (reply.kind === 'takeover' && !this.isForgotten(key)) {
      this.object(`${key} was taken over, though no attempt had it`);
    }
    if (reply.kind === 'takeover') this.world.takenOver.add(key);
    this.fences.set(recordKey, reply.fence);
    const deadline = nowMs + maxExecutionMs;
    this.owners.set(recordKey, {
      process,
      token,
      fence: reply.fence,
      deadline,
      isLate,
      leaseMs,
      leaseUntil: Math.min(nowMs + leaseMs, deadline),
      renewedAt: this.world.scheduler.now,
    });
  }

  /**
   * By the server's clock, and by the time that has passed: both only once a reply has shown the sender that clock.
   * @returns whether its sender has given up.
   */
  private checkInTime({ command, nowMs }: Executed<'begin'>, key: string): boolean {
    const { args, sentAt, knowsClock } = command;
    if (args.notAfter !== 0 && Math.floor(nowMs) > args.notAfter) {
      this.object(`a begin acquired ${key} after its sender had given up`);
    }
    const giveUpAt = sentAt + args.timeoutMs + SLACK_MS;
    const isLate = this.world.scheduler.now > giveUpAt;
    if (isLate && knowsClock && !this.server.hasSteppedBack) {
      this.object(`a begin acquired ${key} long after its sender had given up`);
    }
    return isLate;
  }

  /** A living owner loses its lease by a fault, or at its hard deadline: by the server's clock, or by its own, whichever is first. */
  private checkExcuse(key: string, recordKey: RecordKey, owner: Owner, nowMs: number): void {
    const { process, fence, renewedAt, deadline } = owner;
    if (!process.isAlive || process.isDraining || nowMs >= deadline - SLACK_MS) return;
    const own = process.store.leases.of(recordKey, fence);
    if (own !== undefined && process.clock.now() >= own.deadline - SLACK_MS) return;
    const since = renewedAt - SLACK_MS;
    const isExcused = process.troubledAt >= since || this.server.troubledAt >= since;
    if (!isExcused) this.object(`${key} was taken over from a living owner without a fault`);
  }

  /** A process does not take over its own attempt that it knows of, before the hard deadline (protocol, rule 8). */
  private checkOwn(key: string, begin: Begin, { process, fence }: Owner): void {
    const { recordKey } = begin;
    const { leases } = process.store;
    const sentAt = leases.sentAt(begin);
    const own = leases.of(recordKey, fence);
    // Before it has read the reply, it does not know which record is its own.
    if (!process.isAlive || own === undefined || sentAt === undefined) return;
    if (sentAt <= own.knownAt || sentAt >= own.deadline) return;
    const isRunning = this.logs.find(recordKey, fence)?.isRunning === true;
    // A look-up finds what the operation has done, though it is not stored yet.
    const isSaved = this.operationOf(recordKey).plan.onTakeover !== 'recover';
    if (isRunning || (isSaved && attemptOf(process, recordKey, fence) !== undefined)) {
      this.object(`a process took ${key} over from itself`);
    }
  }

  /** A begin that got no reply may have acquired the key: it is released, so that a retry finds it unused. */
  private checkReleased(key: string, recordKey: RecordKey, owner: Owner): void {
    const { process, token, isLate } = owner;
    const { isAlive, isDraining, busyUntil, store, engine } = process;
    if (isLate || !isAlive || isDraining || busyUntil > this.world.scheduler.now - SLACK_MS) return;
    if (store.isPending(token) || !store.unsureTokens.has(token)) return;
    // Then the attempt runs without protection, and tries to complete it.
    if (this.operationOf(recordKey).plan.whenUnavailable === 'execute') return;
    if (store.releasedTokens.has(token)) return;
    // A duplicate that waits sends it again.
    const isPolled = [...engine.waiting()].some((waiting) => waiting.recordKey === recordKey);
    if (!isPolled) this.object(`${key} was blocked by a begin that was not released`);
  }

  private extended(step: Executed<'extend'>, { kind }: ExtendReply): void {
    if (kind !== 'ok' && kind !== 'revived') return;
    const owner = this.ownerFor(step.command, 'extended');
    if (owner !== undefined) this.renew(owner, step.command.args.leaseMs, step.nowMs);
  }

  private completed(step: Executed<'complete'>, { kind }: CompleteReply): void {
    if (kind !== 'ok' && kind !== 'ok_late') return;
    const { finishedAt, scheduler } = this.world;
    finishedAt.set(this.world.keyOf(step.command.recordKey), scheduler.now);
    if (step.before?.state === 'in_progress') this.ended(step.command);
  }

  private ended(command: OwnCommand): void {
    this.ownerFor(command, 'ended');
    this.owners.delete(command.recordKey);
  }

  private ownerFor({ recordKey, lease }: OwnCommand, what: string): Owner | undefined {
    const owner = this.owners.get(recordKey);
    if (owner === undefined || owner.token === lease.token) return owner;
    this.object(`an attempt ${what} the record of another one`);
    return undefined;
  }

  private renew(owner: Owner, leaseMs: number, nowMs: number): void {
    owner.leaseMs = leaseMs;
    owner.leaseUntil = Math.min(nowMs + leaseMs, owner.deadline);
    owner.renewedAt = this.world.scheduler.now;
  }
}
