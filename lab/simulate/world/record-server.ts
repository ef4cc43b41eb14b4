import {
  type RecordKey,
  type StoredRecord,
  transitions,
  type Clock,
} from '../../../test/support/internals/core.js';
import { MemoryIdempotencyStore } from '../../../test/support/internals/memory.js';
import type { OwnerRules } from '../rules/owner-rules.js';
import type { RecordRules } from '../rules/record-rules.js';
import { kindOf, type Command } from './commands.js';
import { IMMEDIATES } from './scheduler.js';
import type { SimulatedProcess } from './simulated-process.js';
import type { World } from './world.js';

/** The server's clock at the start, in milliseconds. */
const START_MS = 1_700_000_000_000;

interface Written {
  readonly at: number;
  readonly recordKey: RecordKey;
  /** Before it was written. */
  readonly before: StoredRecord | undefined;
}

interface Watcher {
  readonly process: SimulatedProcess;
  readonly key: RecordKey;
  readonly notify: () => void;
  stop: () => unknown;
}

type Done = (reply: unknown) => void;

type RecordCommand = Exclude<Command, { name: 'watch' | 'abandoned' }>;

/** One shard of the store: its records, its clock, and whom it notifies. */
export class RecordServer {
  isUp = true;
  troubledAt = -Infinity;
  private aheadMs = 0;
  hasSteppedBack = false;
  private records = new Map<RecordKey, StoredRecord>();
  private memory: MemoryIdempotencyStore | undefined;
  private readonly recordRules: RecordRules;
  private readonly ownerRules: OwnerRules;
  private readonly watchers = new Map<() => void, Watcher>();
  private written: Written[] = [];

  constructor(
    private readonly world: World,
    runs: 'transitions' | 'memory',
  ) {
    const { records, owners } = world.rules.of(this);
    this.recordRules = records;
    this.ownerRules = owners;
    if (runs === 'memory') this.memory = this.newMemory();
  }

  /** Of the server's clock, in milliseconds; a step reads whole ones, as Redis' and PostgreSQL's do. */
  get nowMs(): number {
    return START_MS + this.world.scheduler.now + this.aheadMs;
  }

  recordOf(key: RecordKey): StoredRecord | undefined {
    if (this.memory === undefined) return this.records.get(key);
    return this.memory['entries'].get(key)?.record;
  }

  /** Atomic. The reply comes later than that, where the store is a MemoryIdempotencyStore. */
  execute(process: SimulatedProcess, command: Command, done: Done): void {
    if (command.name === 'watch') this.watch(process, command, done);
    else if (command.name === 'abandoned') this.listAbandoned(command, done);
    else this.run(process, command, done);
  }

  private run(process: SimulatedProcess, command: RecordCommand, done: Done): void {
    const { world, memory } = this;
    const { recordKey } = command;
    const step = { process, command, before: this.recordOf(recordKey), nowMs: this.nowMs };
    const replied = (after: StoredRecord | undefined, reply: unknown) => {
      const kind = kindOf(reply);
      world.history.add('step', command.name, recordKey, kind);
      world.coverage.count(`executed ${command.name}`, kind);
      this.recordRules.executed({ ...step, after, reply });
      this.ownerRules.executed({ ...step, after, reply });
      done(reply);
    };
    if (memory === undefined) {
      const reply = this.step(command, step.before);
      replied(this.records.get(recordKey), reply);
      this.noteWrite(recordKey, step.before);
    } else {
      const asked = ask(memory, command);
      const after = this.recordOf(recordKey);
      void asked.then((reply) => {
        replied(after, reply);
      });
    }
  }

  private watch(
    process: SimulatedProcess,
    { recordKey, onEnd }: Extract<Command, { name: 'watch' }>,
    done: Done,
  ): void {
    const notify = () => {
      this.world.network.push(process, recordKey, onEnd);
    };
    this.unwatch(onEnd);
    const watcher = { process, key: recordKey, notify, stop: () => undefined as unknown };
    this.watchers.set(onEnd, watcher);
    void this.memory?.watch(recordKey, notify).then((stop) => {
      if (this.watchers.get(onEnd) === watcher) watcher.stop = stop;
      else stop();
    });
    done(undefined);
  }

  /** A process that is cut off is not notified any more. */
  forget(process: SimulatedProcess): void {
    for (const [onEnd, watcher] of this.watchers) {
      if (watcher.process === process) this.unwatch(onEnd);
    }
  }

  unwatch(onEnd: () => void): void {
    this.watchers.get(onEnd)?.stop();
    this.watchers.delete(onEnd);
  }

  get watching(): number {
    return this.watchers.size;
  }

  /** How many records its store has listeners for. */
  get listeners(): number {
    return this.memory?.['watchers']['listeners'].size ?? 0;
  }

  stepClock(ms: number): void {
    if (ms < 0) this.recordRules.stepsBack();
    this.aheadMs += ms;
    if (ms < 0) {
      this.hasSteppedBack = true;
      this.ownerRules.steppedBack();
    }
    this.touch();
  }

  /** The retention of a record is over. */
  expired(recordKey: RecordKey): void {
    this.forgetRecord(recordKey);
    const { expiredAt, scheduler } = this.world;
    const key = this.world.keyOf(recordKey);
    if (!expiredAt.has(key)) expiredAt.set(key, scheduler.now);
  }

  /** Away for a while; its connections break. */
  restart(ms: number, keepsRecords: boolean): void {
    const { world } = this;
    if (!this.isUp) return;
    this.isUp = false;
    this.touch();
    if (!keepsRecords) this.loseAll();
    for (const process of world.living()) process.store.cut(0);
    world.scheduler.after(ms, () => {
      this.isUp = true;
      this.touch();
    });
  }

  /** A replica takes over that has not got what was written in the last `lagMs`. */
  failOver(lagMs: number, ms: number): void {
    const since = this.world.scheduler.now - lagMs;
    const missing = this.written.filter(({ at }) => at >= since);
    // The last one that the replica has.
    const reverted = new Map(missing.reverse().map(({ recordKey, before }) => [recordKey, before]));
    for (const [recordKey, before] of reverted) this.revert(recordKey, before);
    this.written = [];
    this.restart(ms, true);
  }

  get canFailOver(): boolean {
    return this.memory === undefined;
  }

  private revert(recordKey: RecordKey, before: StoredRecord | undefined): void {
    const current = this.records.get(recordKey);
    const areInProgress = before?.state === 'in_progress' && current?.state === 'in_progress';
    // Only heartbeats are missing.
    if (areInProgress && current.fence === before.fence) {
      this.ownerRules.revertLease(recordKey, before.leaseUntil);
    } else {
      this.lost(recordKey);
    }
    if (before === undefined) this.records.delete(recordKey);
    else this.records.set(recordKey, before);
  }

  private loseAll(): void {
    const keys = this.memory === undefined ? this.records.keys() : this.memory['entries'].keys();
    for (const key of [...keys]) this.lost(key);
    this.records = new Map();
    this.written = [];
    if (this.memory !== undefined) this.memory = this.newMemory();
  }

  private lost(recordKey: RecordKey): void {
    const { world } = this;
    const key = world.keyOf(recordKey);
    const wasFinished = this.recordOf(recordKey)?.state !== 'in_progress';
    if (wasFinished) world.lostOutcomes.add(key);
    world.lostRecords.add(key);
    this.forgetRecord(recordKey);
  }

  private forgetRecord(recordKey: RecordKey): void {
    this.recordRules.forget(recordKey);
    this.ownerRules.forget(recordKey);
  }

  private touch(): void {
    this.troubledAt = this.world.scheduler.now;
  }

  private step(command: RecordCommand, before: StoredRecord | undefined): unknown {
    const nowUs = Math.floor(this.nowMs * 1_000);
    switch (command.name) {
      case 'begin':
        return this.write(command.recordKey, transitions.begin(before, command.args, nowUs), false);
      case 'extend': {
        const { lease, args } = command;
        return this.write(command.recordKey, transitions.extend(before, lease, args, nowUs), false);
      }
      case 'complete': {
        const { lease, args } = command;
        const after = transitions.complete(before, lease, args, nowUs);
        return this.write(command.recordKey, after, args.notify === true);
      }
      case 'release': {
        const { lease, args } = command;
        const after = transitions.release(before, lease, args, nowUs);
        return this.write(command.recordKey, after, args.notify === true);
      }
      case 'inspect':
        return transitions.inspect(before, nowUs);
    }
  }

  private write<Reply>(
    recordKey: RecordKey,
    { reply, record }: transitions.Transition<Reply>,
    notifies: boolean,
  ): Reply {
    if (record === undefined || record === this.records.get(recordKey)) return reply;
    this.records.set(recordKey, record);
    if (notifies) this.notify(recordKey);
    return reply;
  }

  private noteWrite(recordKey: RecordKey, before: StoredRecord | undefined): void {
    if (this.records.get(recordKey) === before) return;
    this.written.push({ at: this.world.scheduler.now, recordKey, before });
    if (this.written.length > 400) this.written = this.written.slice(-200);
  }

  private notify(recordKey: RecordKey): void {
    for (const { key, notify } of this.watchers.values()) if (key === recordKey) notify();
  }

  private listAbandoned({ args }: Extract<Command, { name: 'abandoned' }>, done: Done): void {
    if (this.memory !== undefined) {
      void this.memory.abandoned(args).then((page) => {
        this.recordRules.listed(page);
        done(page);
      });
      return;
    }
    const nowUs = Math.floor(this.nowMs * 1_000);
    const { overMs, limit, cursor = '' } = args;
    const found = [];
    for (const recordKey of [...this.records.keys()].sort()) {
      if (recordKey <= cursor || found.length >= limit) continue;
      const { reply, record } = transitions.abandoned(this.records.get(recordKey)!, overMs, nowUs);
      if (record !== undefined) this.records.set(recordKey, record);
      if (reply !== undefined) found.push({ recordKey, ...reply });
    }
    const last = found.at(-1);
    const isLast = found.length < limit || last === undefined;
    const page = isLast ? { records: found } : { records: found, cursor: last.recordKey };
    this.recordRules.listed(page);
    done(page);
  }

  private newMemory(): MemoryIdempotencyStore {
    const { scheduler } = this.world;
    const clock: Clock = {
      now: () => scheduler.now,
      wallTime: () => this.nowMs,
      setTimeout: () => {
        throw new Error('The store has set a timer.');
      },
      clearTimeout: () => undefined,
      setImmediate: (callback, value) => {
        scheduler.at(scheduler.now, IMMEDIATES, () => {
          callback(value);
        });
      },
      random: () => this.world.faultRandom.fraction(),
      randomFill: () => undefined,
    };
    return new MemoryIdempotencyStore({}, clock);
  }
}

function ask(store: MemoryIdempotencyStore, command: RecordCommand): Promise<unknown> {
  switch (command.name) {
    case 'begin':
      return store.begin(command.args);
    case 'extend':
      return store.extend(command.lease, command.args);
    case 'complete': {
      // Its sender may use the bytes for something else.
      const { header, body } = command.args.outcome;
      const bytes = Buffer.from(body);
      const args = { ...command.args, outcome: { header, body: bytes } };
      const asked = store.complete(command.lease, args);
      bytes.fill(0);
      return asked;
    }
    case 'release':
      return store.release(command.lease, command.args);
    case 'inspect':
      return store.inspect(command.recordKey);
  }
}
