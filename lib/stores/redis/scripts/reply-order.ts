// Not the global ones, which tests fake.
import { setImmediate, setTimeout } from 'node:timers';
import { StoreReplyMismatchedError } from '../../../core/util/errors.js';
import { newNonce } from '../../../core/util/nonce.js';
import type { OrderedClient } from '../connection/client-types.js';
import { isQueued, isReplyTo } from './replies.js';

const CHECK_PAUSE_MS = 5;
/** After these it is not known: whoever asked has no longer time than that. */
const MAX_CHECKS = 100;

/** Replies as the scripts do, and needs no permission that they do not need. */
const PROBE = 'return {ARGV[1]}';

/** Streams that were destroyed here: one connection may have two orders, its own and its cluster's. */
const ended = new WeakSet();

/** Told once of each connection that was found out of step. */
export type MismatchListener = (error: StoreReplyMismatchedError) => void;

/** Error replies of one connection of which it is not known yet whether they are their commands' own. */
interface Doubt {
  readonly stream: object | undefined;
  readonly listeners: ((isInPlace: boolean) => void)[];
  checks: number;
}

/**
 * Whether the replies of one connection still come in step with its commands. Of itself only a script's reply says whose
 * it is: an error reply is believed once the connection was found in step after it.
 */
export class ReplyOrder {
  private doubt: Doubt | undefined;
  /** Connections that owe the reply to a probe. */
  private readonly probed = new WeakSet();

  constructor(
    private readonly client: OrderedClient,
    private readonly onMismatch: MismatchListener,
  ) {}

  /** A reply has said that it belongs to its command. */
  confirmed(): void {
    if (this.doubt !== undefined) this.resolve(this.doubt.stream === this.client.stream);
  }

  /** A reply belongs to another command: the connection is ended, and what it has still to say is read by nobody. */
  broken(): StoreReplyMismatchedError {
    return this.end(this.connections);
  }

  /** An error reply has just come: `told` is told, once it is known, whether it is its command's own. */
  errorReplied(listener: (isInPlace: boolean) => void): void {
    if (this.doubt === undefined) {
      this.doubt = { stream: this.client.stream, listeners: [], checks: 0 };
      // Replies that came with it are looked at first.
      setImmediate(this.check, this.doubt);
    }
    this.doubt.listeners.push(listener);
  }

  private readonly check = (doubt: Doubt): void => {
    if (this.doubt !== doubt) return;
    const { status, stream, commandQueue } = this.client;
    doubt.checks += 1;
    // What a closed connection owes is dropped.
    if (stream !== doubt.stream || status !== 'ready') this.resolve(false);
    // Nothing is owed any more, so that each command has had one reply, its own.
    else if (commandQueue?.length === 0) this.resolve(true);
    else if (doubt.checks <= MAX_CHECKS) setTimeout(this.check, CHECK_PAUSE_MS, doubt).unref();
    else {
      this.resolve(false);
      for (const connection of this.connections) void this.probe(connection);
    }
  };

  /** Of a cluster all: a reply does not say which node sent it. */
  private get connections(): readonly OrderedClient[] {
    const { client } = this;
    return client.isCluster === true ? (client.nodes?.() ?? []) : [client];
  }

  /**
   * Where each reply is an error, none of them shows that one is missing. The reply to a probe does: it arrives at the
   * command before, or another reply arrives at the probe. A slow server replies late, and in step.
   */
  private async probe(connection: OrderedClient): Promise<void> {
    const { status, stream } = connection;
    if (status !== 'ready' || stream === undefined || this.probed.has(stream)) return;
    this.probed.add(stream);
    const nonce = newNonce();
    try {
      const reply = await connection.evalBuffer(PROBE, 0, nonce);
      if (!isReplyTo(nonce, reply) && !isQueued(reply)) this.end([connection]);
    } catch {
      // An error reply may be the probe's own.
    }
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
