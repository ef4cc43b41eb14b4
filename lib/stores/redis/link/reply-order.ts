// Not the global ones, which tests fake.
import { setImmediate, setTimeout } from 'node:timers';
import { StoreReplyMismatchedError } from '../../../core/errors/errors.js';
import { newNonce } from '../../../core/util/nonce.js';

const CHECK_PAUSE_MS = 5;
/** Then it counts as unknown: no caller waits longer than that. */
const MAX_CHECKS = 100;

/** Replies as the scripts do, and requires no further permission. */
const PROBE = "return ARGV[1] .. ' probe'";

/** Sockets destroyed here: one connection may have two orders, its own and its cluster's. */
const ended = new WeakSet();

/** Called once per connection that is found out of step. */
export type MismatchListener = (error: StoreReplyMismatchedError) => void;

/** A connection as far as the order of its replies is concerned; a cluster as a whole, of its connections. */
export interface OrderedConnection {
  /** The socket in use, which a new connection replaces; undefined on a cluster. */
  readonly socket: { destroy(): unknown } | undefined;
  readonly isReady: boolean;
  /** Commands without a reply yet; undefined on a cluster. */
  readonly pending: number | undefined;
  /** The parts of a cluster: all of them, as a reply does not name its server. */
  readonly parts?: readonly OrderedConnection[] | undefined;
  /** Sends EVAL without keys. */
  probe(text: string, argument: string): Promise<unknown>;
}

/** Error replies of one connection that may belong to other commands. */
interface Doubt {
  readonly socket: object | undefined;
  readonly listeners: ((isInPlace: boolean) => void)[];
  checks: number;
}

/**
 * Checks that replies of one connection arrive in the order of its commands. Only a script's reply names its command.
 * An error reply is trusted once the connection is found in step after it.
 */
export class ReplyOrder {
  private doubt: Doubt | undefined;
  private readonly probed = new WeakSet();

  constructor(
    private readonly connection: OrderedConnection,
    private readonly onMismatch: MismatchListener,
  ) {}

  confirmed(): void {
    if (this.doubt !== undefined) this.resolve(this.doubt.socket === this.connection.socket);
  }

  /** A reply belongs to another command: closes the connection, so that its remaining replies are not read. */
  broken(): StoreReplyMismatchedError {
    return this.end(this.connections);
  }

  /** An error reply has arrived. Calls `listener` once it is known whether it belongs to its command. */
  errorReplied(listener: (isInPlace: boolean) => void): void {
    if (this.doubt === undefined) {
      this.doubt = { socket: this.connection.socket, listeners: [], checks: 0 };
      // Read the replies that arrived with it first.
      setImmediate(this.check, this.doubt);
    }
    this.doubt.listeners.push(listener);
  }

  private readonly check = (doubt: Doubt): void => {
    if (this.doubt !== doubt) return;
    const { isReady, socket, pending } = this.connection;
    doubt.checks += 1;
    // A closed connection drops its pending replies. One that is closed here stays "ready" for a moment.
    const isClosed = !isReady || (socket !== undefined && ended.has(socket));
    if (socket !== doubt.socket || isClosed) this.resolve(false);
    // No reply is pending: each command has had its own.
    else if (pending === 0) this.resolve(true);
    else if (doubt.checks <= MAX_CHECKS) setTimeout(this.check, CHECK_PAUSE_MS, doubt).unref();
    else {
      this.resolve(false);
      for (const connection of this.connections) void this.probe(connection);
    }
  };

  private get connections(): readonly OrderedConnection[] {
    return this.connection.parts ?? [this.connection];
  }

  /**
   * Error replies alone never show that one is missing. The reply to a probe does: it arrives at the command before, or
   * another reply arrives at the probe. A slow server replies late, but in step.
   */
  private async probe(connection: OrderedConnection): Promise<void> {
    const { isReady, socket } = connection;
    if (!isReady || socket === undefined || this.probed.has(socket)) return;
    this.probed.add(socket);
    const nonce = newNonce();
    let isOther: boolean;
    try {
      const reply = await connection.probe(PROBE, nonce);
      isOther = !isReplyTo(nonce, reply) && !isQueued(reply);
    } catch {
      // The error reply may belong to the probe.
      isOther = false;
    }
    if (isOther) this.end([connection]);
    this.probed.delete(socket);
  }

  private end(connections: readonly OrderedConnection[]): StoreReplyMismatchedError {
    this.resolve(false);
    const error = new StoreReplyMismatchedError('Redis');
    let isNew = false;
    for (const { socket } of connections) {
      if (socket === undefined || ended.has(socket)) continue;
      isNew = true;
      ended.add(socket);
      socket.destroy();
    }
    if (isNew) this.onMismatch(error);
    return error;
  }

  private resolve(isInPlace: boolean): void {
    const { doubt } = this;
    this.doubt = undefined;
    for (const listener of doubt?.listeners ?? []) listener(isInPlace);
  }
}

const SPACE = 0x20;

/** "!": what follows it, up to the space, is why the journal lacks an entry. */
export const MISSED = 0x21;

/**
 * Whether a script has replied it to the send with this nonce. Check this before anything else: the position of a reply
 * does not prove that it belongs to a command.
 */
export function isReplyTo(nonce: string, reply: unknown): boolean {
  const head: unknown = Array.isArray(reply) ? reply[0] : reply;
  if (!Buffer.isBuffer(head)) return false;
  const end = head[nonce.length];
  return (end === SPACE || end === MISSED) && head.toString('latin1', 0, nonce.length) === nonce;
}

/** Whether Redis has replied it to a command between MULTI and EXEC. */
export function isQueued(reply: unknown): boolean {
  return (typeof reply === 'string' || Buffer.isBuffer(reply)) && reply.toString() === 'QUEUED';
}
