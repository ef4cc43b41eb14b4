import {
  type Lease,
  type RecordKey,
  IdempotencyStore,
  type Abandoned,
  type AbandonedPage,
  type Begin,
  type BeginReply,
  type Complete,
  type CompleteReply,
  type Extend,
  type ExtendReply,
  type IdempotencyRecord,
  type Release,
  type ReleaseReply,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
} from '../../../test/support/internals/core.js';
import { kindOf, type Command } from './commands.js';
import { LeaseBook } from './lease-book.js';
import type { RecordServer } from './record-server.js';
import type { SimulatedProcess } from './simulated-process.js';

/** A command that waits for its reply. */
interface Sending {
  readonly command: Command;
  readonly server: RecordServer;
  readonly dueAt: number;
  attempts: number;
  mayHaveRun: boolean;
  isInFlight: boolean;
  resolve(reply: unknown): void;
  reject(error: Error): void;
}

const FIRST_PAUSE_MS = 2;
const LONGEST_PAUSE_MS = 50;

/** The client of the store in one process: sends commands, resends them, and gives up in time, as the real ones do. */
export class RemoteStore extends IdempotencyStore {
  /** What the replies say of leases, by this process' clock. */
  readonly leases = new LeaseBook();
  /** While it lasts, what is sent or replied is lost without an error. */
  blackHoleUntil = -Infinity;
  /** Tokens of begins that may have been executed, though no reply came in time. */
  readonly unsureTokens = new Set<string>();
  /** Tokens whose release was sent. */
  readonly releasedTokens = new Set<string>();
  /** A reply has shown the time of the server. */
  knowsClock = false;
  /** Without a connection until then. */
  private connectsAt = -Infinity;
  private readonly sendings = new Set<Sending>();
  private readonly watched = new Map<() => void, RecordKey>();

  constructor(private readonly process: SimulatedProcess) {
    super();
  }

  get pending(): number {
    return this.sendings.size;
  }

  /** Whether a begin with this token is under way. */
  isPending(token: string): boolean {
    return this.begins().some((begin) => begin.token === token);
  }

  /** Whether a begin of this record is under way. */
  isBeginning(recordKey: RecordKey): boolean {
    return this.begins().some((begin) => begin.recordKey === recordKey);
  }

  get subscriptions(): number {
    return this.watched.size;
  }

  async begin(args: Begin): Promise<BeginReply> {
    const { recordKey, timeoutMs, token } = args;
    const { clock, world } = this.process;
    const { attempts } = world.rules;
    this.leases.sent(args, clock.now());
    attempts.begins(this.process, args);
    const { knowsClock } = this;
    const sentAt = this.process.time();
    try {
      const reply = await this.send<BeginReply>(
        { name: 'begin', recordKey, args, sentAt, knowsClock },
        timeoutMs,
      );
      this.leases.begun(args, reply, clock.now());
      this.knowsClock ||= 'now' in reply;
      // It has the record, and knows it.
      if ('fence' in reply && reply.kind !== 'abandoned') this.unsureTokens.delete(token);
      attempts.begun(this.process, args, reply);
      return reply;
    } catch (error) {
      this.leases.failed(args);
      if (error instanceof StoreOutcomeUnknownError) this.unsureTokens.add(token);
      throw error;
    }
  }

  async extend(lease: Lease, args: Extend): Promise<ExtendReply> {
    const sentAt = this.process.clock.now();
    const { recordKey } = lease;
    const { attempts } = this.process.world.rules;
    attempts.extends(this.process, lease);
    const reply = await this.send<ExtendReply>(
      { name: 'extend', recordKey, lease, args },
      args.timeoutMs,
    );
    this.leases.extended(lease, reply, sentAt + args.leaseMs);
    attempts.extended(this.process, lease, reply);
    return reply;
  }

  async complete(lease: Lease, args: Complete): Promise<CompleteReply> {
    const { recordKey } = lease;
    const { attempts } = this.process.world.rules;
    attempts.completes(this.process, lease, args);
    const reply = await this.send<CompleteReply>(
      { name: 'complete', recordKey, lease, args },
      args.timeoutMs,
    );
    attempts.completed(this.process, lease, reply);
    return reply;
  }

  async release(lease: Lease, args: Release): Promise<ReleaseReply> {
    const { recordKey } = lease;
    this.releasedTokens.add(lease.token);
    const { attempts } = this.process.world.rules;
    attempts.releases(this.process, lease);
    const reply = await this.send<ReleaseReply>(
      { name: 'release', recordKey, lease, args },
      args.timeoutMs,
    );
    attempts.released(lease);
    return reply;
  }

  inspect(
    recordKey: RecordKey,
    args: { timeoutMs: number },
  ): Promise<IdempotencyRecord | undefined> {
    return this.send({ name: 'inspect', recordKey, args }, args.timeoutMs);
  }

  override async abandoned(args: Abandoned): Promise<AbandonedPage> {
    return this.send({ name: 'abandoned', recordKey: undefined, args }, args.timeoutMs);
  }

  override async watch(
    recordKey: RecordKey,
    onEnd: () => void,
    { timeoutMs }: { timeoutMs: number },
  ): Promise<(() => void) | undefined> {
    if (!this.process.world.plan.notifies) return undefined;
    // The key must be watched before the reply: else a notification in between would be lost.
    this.watched.set(onEnd, recordKey);
    try {
      await this.send({ name: 'watch', recordKey, onEnd }, timeoutMs);
    } catch (error) {
      this.watched.delete(onEnd);
      throw error;
    }
    return () => {
      this.watched.delete(onEnd);
      for (const server of this.process.world.servers) server.unwatch(onEnd);
    };
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /** The connection breaks, and comes back after `ms`: the senders notice. */
  cut(ms: number): void {
    const { process } = this;
    const now = process.time();
    this.connectsAt = Math.max(this.connectsAt, now + ms);
    process.troubledAt = Math.max(process.troubledAt, this.connectsAt);
    for (const server of process.world.servers) server.forget(process);
    for (const sending of [...this.sendings]) {
      if (!sending.isInFlight) continue;
      process.receive(now, () => {
        this.failed(sending, true);
      });
    }
    process.receive(this.connectsAt + 1, () => {
      for (const [onEnd, recordKey] of this.watched) {
        const command = { name: 'watch', recordKey, onEnd } as const;
        void this.send(command, 100).then(onEnd, () => undefined);
      }
    });
  }

  private begins(): Begin[] {
    return [...this.sendings].flatMap(({ command }) =>
      command.name === 'begin' ? [command.args] : [],
    );
  }

  private send<Reply>(command: Command, timeoutMs: number): Promise<Reply> {
    const { process } = this;
    return new Promise((resolve, reject) => {
      if (!process.isAlive) return;
      const { world } = process;
      const sending: Sending = {
        command,
        server: world.serverOf(command.recordKey),
        dueAt: process.time() + timeoutMs,
        attempts: 0,
        mayHaveRun: false,
        isInFlight: false,
        resolve: (reply) => {
          end();
          resolve(reply as Reply);
        },
        reject: (error) => {
          end();
          world.coverage.count('failures of commands', `${command.name} ${error.name}`);
          world.history.add('fail', process.name, command.name, error.name);
          reject(error);
        },
      };
      const timer = process.clock.setTimeout(
        () => {
          // Replies that have arrived are read first.
          process.clock.setImmediate(() => {
            if (this.sendings.has(sending)) this.giveUp(sending);
          }, undefined);
        },
        timeoutMs,
        undefined,
      );
      const end = () => {
        this.sendings.delete(sending);
        process.clock.clearTimeout(timer);
      };
      this.sendings.add(sending);
      this.attempt(sending);
    });
  }

  private attempt(sending: Sending): void {
    const { process } = this;
    const { command, server } = sending;
    if (!this.sendings.has(sending)) return;
    if (this.connectsAt > process.time() || !server.isUp) {
      this.failed(sending, false);
      return;
    }
    if (process.contact('command')) return;
    sending.isInFlight = true;
    process.world.network.carry(process, command, server, (reply, isRejection) => {
      this.replied(sending, reply, isRejection);
    });
  }

  private replied(sending: Sending, reply: unknown, isRejection: boolean): void {
    const { process } = this;
    if (process.contact('reply')) return;
    if (!this.sendings.has(sending) || !sending.isInFlight) return;
    const { name } = sending.command;
    if (isRejection) {
      this.failed(sending, false);
      return;
    }
    const kind = kindOf(reply);
    process.world.coverage.count(`replies to ${name}`, kind);
    process.world.history.add('reply', process.name, name, kind);
    sending.resolve(reply);
  }

  /** The connection broke, could not be made, or the server rejected it. Sends again if there is time. */
  private failed(sending: Sending, mayHaveRun: boolean): void {
    const { process } = this;
    if (!this.sendings.has(sending)) return;
    sending.isInFlight = false;
    sending.mayHaveRun ||= mayHaveRun;
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** sending.attempts, LONGEST_PAUSE_MS);
    sending.attempts += 1;
    if (process.time() + pauseMs >= sending.dueAt) {
      this.giveUp(sending);
      return;
    }
    process.clock.setTimeout(
      () => {
        this.attempt(sending);
      },
      pauseMs,
      undefined,
    );
  }

  private giveUp(sending: Sending): void {
    const mayHaveRun = sending.mayHaveRun || sending.isInFlight;
    sending.reject(
      mayHaveRun
        ? new StoreOutcomeUnknownError('The server may have executed the command.')
        : new StoreUnavailableError('The server did not execute the command.'),
    );
  }
}
