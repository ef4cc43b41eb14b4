import type { WaitingCommands } from '../link/commands.js';
import type { Arguments, Keys, RedisArgument, ReplyReceiver } from '../link/redis-link.js';
import { ReplyOrder, type MismatchListener, type OrderedConnection } from '../link/reply-order.js';
import { NotSentError, replyCode } from '../link/send-failure.js';
import { StallDetector } from '../link/stall-detector.js';
import type { CommandOptions, SingleClient } from './client-types.js';
import { isErrorReply } from './error-classification.js';

/** The bytes by which RESP begins a string and a map: so node-redis names the types of replies. */
const BLOB_STRING = 36;
const MAP = 37;

/**
 * The time-out of node-redis costs several times the rest of a command, and ends only what is not written yet: the store has
 * deadlines of its own.
 */
const ANY = { timeout: undefined, abortSignal: undefined, asap: undefined };
const BYTES: CommandOptions = { ...ANY, typeMapping: { [BLOB_STRING]: Buffer } };
/** Maps as RESP 2 has them. */
export const TEXTS: CommandOptions = { ...ANY, typeMapping: { [MAP]: Array } };

/** A connection of the store. */
export interface Owned {
  /** A connection that owes replies and gives none for so long is replaced. */
  readonly stallTimeoutMs: number;
  readonly isClosed: () => boolean;
}

/** Of the store's connections, after a failed attempt to connect. */
export const LONGEST_RECONNECT_PAUSE_MS = 250;

/**
 * Longer than the store's connections pause before they connect again: redis 5 sleeps so long before it notices that it was
 * closed meanwhile.
 */
const ATTEMPT_ENDS_MS = LONGEST_RECONNECT_PAUSE_MS + 50;

/** Sends commands on the connection of one client. */
export class ClientCommands implements WaitingCommands, OrderedConnection {
  readonly order: ReplyOrder;
  /**
   * node-redis merges the options of each command into those of its client: to add some that the client does not have
   * costs far more than to replace them. Version 5 does not take those of the view, so that commands bring their own, too.
   */
  private readonly view: Pick<SingleClient, 'sendCommand'>;
  private readonly stallDetector: StallDetector | undefined;
  private current: { readonly destroy: () => void; bytesRead: number } | undefined;
  private epoch = -1;

  constructor(
    private readonly client: SingleClient,
    private readonly keyPrefix: string,
    onMismatch: MismatchListener,
    private readonly owned?: Owned,
  ) {
    this.order = new ReplyOrder(this, onMismatch);
    this.view = client.withCommandOptions(BYTES);
    if (owned !== undefined) this.stallDetector = this.watch(owned.stallTimeoutMs);
  }

  /** Stands for the socket, which node-redis hides. */
  get socket(): { readonly destroy: () => void; bytesRead: number } | undefined {
    const { client } = this;
    if (client.socketEpoch !== this.epoch) {
      this.epoch = client.socketEpoch;
      this.current = { destroy: this.replace, bytesRead: 0 };
    }
    return this.current;
  }

  get isReady(): boolean {
    return this.client.isReady;
  }

  get pending(): number | undefined {
    const isEmpty = this.client._getQueue?.().isEmpty();
    return isEmpty === undefined ? undefined : Number(!isEmpty);
  }

  probe(text: string, argument: string): Promise<unknown> {
    return this.view.sendCommand(['EVAL', text, '0', argument], BYTES);
  }

  evalsha(sha1: string, keys: Keys, args: Arguments, receiver: ReplyReceiver): void {
    this.send(['EVALSHA', sha1, String(keys.length), ...this.named(keys), ...args], receiver);
  }

  eval(text: string, keys: Keys, args: Arguments, receiver: ReplyReceiver): void {
    this.send(['EVAL', text, String(keys.length), ...this.named(keys), ...args], receiver);
  }

  /** EVAL of a key that is moving to this server. */
  evalAsking(text: string, keys: Keys, args: Arguments, receiver: ReplyReceiver): void {
    if (!this.isReady) throw new NotSentError();
    // Nothing comes between the two, but what makes the script reply MOVED. Its own reply tells of a failure.
    this.view.sendCommand(['ASKING'], BYTES).catch(() => undefined);
    this.eval(text, keys, args, receiver);
  }

  get(key: string, receiver: ReplyReceiver): void {
    this.send(['GET', this.keyPrefix + key], receiver);
  }

  set(key: string, value: readonly Buffer[], expiryMs: number, receiver: ReplyReceiver): void {
    const words = ['SET', this.keyPrefix + key, Buffer.concat(value), 'PX', String(expiryMs)];
    this.send(words, receiver);
  }

  wait(count: number, timeoutMs: number, receiver: ReplyReceiver): void {
    this.send(['WAIT', String(count), String(timeoutMs)], receiver);
  }

  scan(cursor: string, match: string, count: number, receiver: ReplyReceiver): void {
    const page = ['MATCH', match, 'COUNT', String(count), 'TYPE', 'string'];
    this.send(['SCAN', cursor, ...page], receiver, TEXTS);
  }

  info(receiver: ReplyReceiver): void {
    this.send(['INFO'], receiver, TEXTS);
  }

  private named(keys: Keys): Keys {
    const { keyPrefix } = this;
    return keyPrefix === '' ? keys : keys.map((key) => keyPrefix + key);
  }

  private send(words: readonly RedisArgument[], receiver: ReplyReceiver, options = BYTES): void {
    const { client, view, order, stallDetector } = this;
    // The client would keep it for the next connection.
    if (!client.isReady) throw new NotSentError();
    stallDetector?.sent();
    view.sendCommand(words, options).then(
      (reply) => {
        this.settled();
        receiver.onReply(reply, order);
      },
      (error: unknown) => {
        this.settled();
        this.leaveDemoted(error);
        receiver.onError(error, order);
      },
    );
  }

  private settled(): void {
    if (this.stallDetector === undefined) return;
    const { socket } = this;
    // As many as there were replies: of bytes node-redis says nothing.
    if (socket !== undefined) socket.bytesRead += 1;
    this.stallDetector.settled();
  }

  /** The address of the primary may lead to another server by now. The client of an application is left as it is. */
  private leaveDemoted(error: unknown): void {
    if (this.stallDetector === undefined || !isErrorReply(error)) return;
    if (replyCode(error.message) === 'READONLY') this.order.errorReplied(this.replace);
  }

  private readonly replace = (): void => {
    const { client, owned } = this;
    // A closed client stays closed, and one of the application that connects again has no connection to end.
    if (!client.isOpen || (owned === undefined && !client.isReady)) return;
    const isConnecting = !client.isReady;
    client.destroy();
    const connect = () => {
      // The events of the client tell of a failure.
      if (owned?.isClosed() !== true) client.connect().catch(() => undefined);
    };
    // An attempt to connect that finds its client open again goes on, beside the next one: they would grow without end.
    if (isConnecting) setTimeout(connect, ATTEMPT_ENDS_MS).unref();
    else connect();
  };

  private watch(limitMs: number): StallDetector {
    const { client, replace } = this;
    const streamOf = () => this.socket;
    const watched = {
      get stream() {
        return streamOf();
      },
      on: (event: 'connect' | 'ready' | 'close', listener: () => void) => {
        // Of a handshake that fails, node-redis emits an error; of one that close() ends, only the end.
        for (const name of event === 'close' ? ['error', 'end'] : [event])
          client.on(name, listener);
      },
      disconnect: replace,
    };
    return new StallDetector(watched, limitMs);
  }
}
