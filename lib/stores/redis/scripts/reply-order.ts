// Not the global ones, which tests fake.
import { setImmediate, setTimeout } from 'node:timers';
import { StoreReplyMismatchedError } from '../../../core/util/errors.js';
import { newNonce } from '../../../core/util/nonce.js';
import type { OrderedClient } from '../ioredis/client-types.js';
import { isQueued, isReplyTo } from './replies.js';

const CHECK_PAUSE_MS = 5;
/** Then it counts as unknown: no caller waits longer than that. */
const MAX_CHECKS = 100;

/** Replies as the scripts do, and requires no further permission. */
const PROBE = "return ARGV[1] .. ' probe'";

/** Streams destroyed here: one connection may have two orders, its own and its cluster's. */
const ended = new WeakSet();

/** Called once per connection that is found out of step. */
export type MismatchListener = (error: StoreReplyMismatchedError) => void;

/** Error replies of one connection that may belong to other commands. */
interface Doubt {
  readonly stream: object | undefined;
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
    private readonly client: OrderedClient,
    private readonly onMismatch: MismatchListener,
  ) {}

  confirmed(): void {
    if (this.doubt !== undefined) this.resolve(this.doubt.stream === this.client.stream);
  }

  /** A reply belongs to another command: closes the connection, so that its remaining replies are not read. */
  broken(): StoreReplyMismatchedError {
    return this.end(this.connections);
  }

  /** An error reply has arrived. Calls `listener` once it is known whether it belongs to its command. */
  errorReplied(listener: (isInPlace: boolean) => void): void {
    if (this.doubt === undefined) {
      this.doubt = { stream: this.client.stream, listeners: [], checks: 0 };
      // Read the replies that arrived with it first.
      setImmediate(this.check, this.doubt);
    }
    this.doubt.listeners.push(listener);
  }

  private readonly check = (doubt: Doubt): void => {
    if (this.doubt !== doubt) return;
    const { status, stream, commandQueue } = this.client;
    doubt.checks += 1;
    // A closed connection drops its pending replies. One that is closed here stays "ready" for a moment.
    const isClosed = status !== 'ready' || (stream !== undefined && ended.has(stream));
    if (stream !== doubt.stream || isClosed) this.resolve(false);
    // No reply is pending: each command has had its own.
    else if (commandQueue?.length === 0) this.resolve(true);
    else if (doubt.checks <= MAX_CHECKS) setTimeout(this.check, CHECK_PAUSE_MS, doubt).unref();
    else {
      this.resolve(false);
      for (const connection of this.connections) void this.probe(connection);
    }
  };

  /** On a cluster all: a reply does not name its node. */
  private get connections(): readonly OrderedClient[] {
    const { client } = this;
    return client.isCluster === true ? (client.nodes?.() ?? []) : [client];
  }

  /**
   * Error replies alone never show that one is missing. The reply to a probe does: it arrives at the command before, or
   * another reply arrives at the probe. A slow server replies late, but in step.
   */
  private async probe(connection: OrderedClient): Promise<void> {
    const { status, stream } = connection;
    if (status !== 'ready' || stream === undefined || this.probed.has(stream)) return;
    this.probed.add(stream);
    const nonce = newNonce();
    let isOther: boolean;
    try {
      const reply = await connection.evalBuffer(PROBE, 0, nonce);
      isOther = !isReplyTo(nonce, reply) && !isQueued(reply);
    } catch {
      // The error reply may belong to the probe.
      isOther = false;
    }
    if (isOther) this.end([connection]);
    this.probed.delete(stream);
  }

  private end(connections: readonly OrderedClient[]): StoreReplyMismatchedError {
    this.resolve(false);
    const error = new StoreReplyMismatchedError('Redis');
    let isNew = false;
    for (const { stream } of connections) {
      if (stream === undefined || ended.has(stream)) continue;
      isNew = true;
      ended.add(stream);
      stream.destroy();
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
