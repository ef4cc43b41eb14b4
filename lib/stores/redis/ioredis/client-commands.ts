// Not the global one: while a test fakes it, corked writes would never be sent.
import { setImmediate } from 'node:timers';
import type { WaitingCommands } from '../link/commands.js';
import type { Arguments, Keys, ReplyReceiver } from '../link/redis-link.js';
import type { StallDetector } from '../link/stall-detector.js';
import { ReplyOrder, type MismatchListener, type OrderedConnection } from '../link/reply-order.js';
import type { CommandClient, CorkableStream, OrderedClient } from './client-types.js';
import type { OwnCommands } from './own-commands.js';

interface Sending {
  /** Prefix that the client does not add to keys itself. */
  readonly keyPrefix?: string;
  /** Undefined if each command is sent at once. */
  readonly corkedWrites?: CorkedWrites | undefined;
  /** Only of a connection that the store opened. */
  readonly ownCommands?: OwnCommands | undefined;
  /** Notified of each command, if stalled connections are replaced. */
  readonly stallDetector?: StallDetector | undefined;
  /** Passed on with each reply. */
  readonly unreplicated?: Error | undefined;
}

/** Sends commands by one client: a connection to one server, or a `Cluster`, which routes them. */
export class ClientCommands implements WaitingCommands {
  private readonly keyPrefix: string;
  private readonly corkedWrites: CorkedWrites | undefined;
  private readonly ownCommands: OwnCommands | undefined;
  private readonly stallDetector: StallDetector | undefined;
  private readonly unreplicated: Error | undefined;

  constructor(
    private readonly client: CommandClient,
    readonly order: ReplyOrder,
    { keyPrefix = '', corkedWrites, ownCommands, stallDetector, unreplicated }: Sending = {},
  ) {
    this.keyPrefix = keyPrefix;
    this.corkedWrites = corkedWrites;
    this.ownCommands = ownCommands;
    this.stallDetector = stallDetector;
    this.unreplicated = unreplicated;
  }

  evalsha(sha1: string, keys: Keys, args: Arguments, receiver: ReplyReceiver): void {
    const { client, ownCommands } = this;
    this.corkedWrites?.cork();
    if (ownCommands?.evalsha(sha1, keys, args, receiver) === true) {
      this.stallDetector?.sent();
      return;
    }
    this.report(client.evalshaBuffer(sha1, keys.length, ...this.named(keys), ...args), receiver);
  }

  eval(text: string, keys: Keys, args: Arguments, receiver: ReplyReceiver): void {
    const { client } = this;
    this.report(client.evalBuffer(text, keys.length, ...this.named(keys), ...args), receiver);
  }

  get(key: string, receiver: ReplyReceiver): void {
    this.corkedWrites?.cork();
    this.report(this.client.getBuffer(this.keyPrefix + key), receiver);
  }

  set(key: string, value: readonly Buffer[], expiryMs: number, receiver: ReplyReceiver): void {
    const { client, ownCommands } = this;
    this.corkedWrites?.cork();
    if (ownCommands?.set(key, value, expiryMs, receiver) === true) {
      this.stallDetector?.sent();
      return;
    }
    this.report(client.set(this.keyPrefix + key, Buffer.concat(value), 'PX', expiryMs), receiver);
  }

  wait(count: number, timeoutMs: number, receiver: ReplyReceiver): void {
    this.report(this.client.wait(count, timeoutMs), receiver);
  }

  scan(cursor: string, match: string, count: number, receiver: ReplyReceiver): void {
    const page = ['MATCH', match, 'COUNT', String(count), 'TYPE', 'string'];
    this.report(this.client.scan(cursor, ...page), receiver);
  }

  info(receiver: ReplyReceiver): void {
    this.report(this.client.info(), receiver);
  }

  private named(keys: Keys): Keys {
    const { keyPrefix } = this;
    return keyPrefix === '' ? keys : keys.map((key) => keyPrefix + key);
  }

  private report(replied: Promise<unknown>, receiver: ReplyReceiver): void {
    const { order, stallDetector, unreplicated } = this;
    stallDetector?.sent();
    replied.then(
      (reply) => {
        stallDetector?.settled();
        receiver.onReply(reply, order, unreplicated);
      },
      (error: unknown) => {
        stallDetector?.settled();
        receiver.onError(error, order);
      },
    );
  }
}

export function orderOf(client: OrderedClient, onMismatch: MismatchListener): ReplyOrder {
  return new ReplyOrder(new ClientConnection(client), onMismatch);
}

/** A client as {@link ReplyOrder} sees it. */
class ClientConnection implements OrderedConnection {
  constructor(private readonly client: OrderedClient) {}

  get socket(): OrderedConnection['socket'] {
    return this.client.stream;
  }

  get isReady(): boolean {
    return this.client.status === 'ready';
  }

  get pending(): number | undefined {
    return this.client.commandQueue?.length;
  }

  get parts(): readonly OrderedConnection[] | undefined {
    const { client } = this;
    if (client.isCluster !== true) return undefined;
    return (client.nodes?.() ?? []).map((node) => new ClientConnection(node));
  }

  probe(text: string, argument: string): Promise<unknown> {
    return this.client.evalBuffer(text, 0, argument);
  }
}

/**
 * Sends the commands of one event loop iteration in one write, as the auto-pipelining of ioredis does. That one costs
 * two promises and an iteration per command, more than all else that the client does for it.
 */
export class CorkedWrites {
  private corked: CorkableStream | undefined;

  /** @param client - its stream changes with each connection, and is undefined without one. */
  constructor(private readonly client: { readonly stream?: CorkableStream }) {}

  /** Buffers what is written until the end of this iteration. */
  cork(): void {
    const { stream } = this.client;
    if (stream === undefined || stream === this.corked) return;
    this.corked = stream;
    stream.cork();
    // After all input of this iteration, which may cause further commands.
    setImmediate(() => {
      if (this.corked === stream) this.corked = undefined;
      stream.uncork();
    });
  }
}
