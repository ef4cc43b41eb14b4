import type { StoreReplyMismatchedError } from '../../../core/errors/errors.js';
import type { ReplyOrder } from './reply-order.js';
import type { LinkFailure } from './send-failure.js';

export type RedisArgument = string | Buffer;

export type Keys = readonly string[];
export type Arguments = readonly RedisArgument[];

/** Gets the end of one command, once: as soon as it is known, however long that takes. Must not throw. */
export interface ReplyReceiver {
  /** Whether it is the reply to this command, and not to another one of the same connection. */
  isOwn(reply: unknown): boolean;
  /**
   * @param order - that of the connection on which the reply arrived.
   * @param unreplicated - why a failover may lose what the command wrote; only of a link that waits for replicas.
   */
  onReply(reply: unknown, order: ReplyOrder, unreplicated?: unknown): void;
  /** @param order - undefined if nothing was sent. */
  onError(error: unknown, order?: ReplyOrder): void;
}

/** PUBLISH, or SPUBLISH on a cluster whose client knows it: a message then stays in the shard of its record. */
export type PublishCommand = 'PUBLISH' | 'SPUBLISH';

/** A connection that only subscribes. Channels are named like keys, without the prefix of the link. */
export interface Subscriber {
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  close(): void;
}

/** How many replicas have to confirm a write, and how long the store waits for them. */
export interface RequiredReplicas {
  readonly count: number;
  readonly timeoutMs: number;
}

/** A failure of the kind `redirected`, and the connection on which it arrived. */
export interface Redirection {
  readonly error: unknown;
  readonly order: ReplyOrder | undefined;
}

/** One server, asked directly. */
export interface RedisServer {
  /** How the link reaches it, for people: host and port, without user and password. */
  readonly address: string;
  readonly isEncrypted: boolean;
  /** Sends one command. On a link to one server, keys get its prefix. Texts of the reply are strings. */
  call(command: string, ...args: readonly string[]): Promise<unknown>;
}

export type LinkEvent =
  | { readonly kind: 'ready' | 'lost' }
  /** A reply went to another command: the connection is closed. Once per connection. */
  | { readonly kind: 'out_of_step'; readonly error: StoreReplyMismatchedError };

/**
 * The way to Redis: what the store asks of a client. To one server, or to a cluster, whose link finds the server that has
 * a key. Replies are as the server sends them, bytes as Buffers. Nothing is sent twice, and nothing is kept to be sent
 * later: what cannot be sent now fails. The verbs throw an error if nothing was sent. They send in the order in which
 * they are called, as far as their keys are of one slot; by a client that does not, at least what names a key of `set`
 * after it.
 */
export interface RedisLink {
  /** What precedes each key, which the link adds; not to the pattern of a scan. */
  readonly keyPrefix: string;
  /** Whether several servers share the keys. */
  readonly isCluster: boolean;
  /** The command that reaches those who subscribe. */
  readonly publishCommand: PublishCommand;
  /** Why nothing can be sent now. Asked before each command: an idle link connects. */
  readonly unavailable: LinkFailure | undefined;

  /** @param args - a copy is taken before this returns. */
  evalsha(sha1: string, keys: Keys, args: Arguments, receiver: ReplyReceiver): void;
  /** @param redirection - of an earlier copy: sends to the server that it names, or throws its error. */
  eval(
    text: string,
    keys: Keys,
    args: Arguments,
    receiver: ReplyReceiver,
    redirection?: Redirection,
  ): void;
  get(key: string, receiver: ReplyReceiver): void;
  /** The reply is ignored. @param value - in parts, which are sent as one. */
  set(key: string, value: readonly Buffer[], expiryMs: number): void;
  /** @returns a link on a connection of its own, whose commands are followed by WAIT. Its `close` is called, too. */
  wait(required: RequiredReplicas): RedisLink;
  /**
   * One SCAN for strings, of one server after the other. The reply is the cursor of the next one, `0` after the last, and
   * the keys with their prefix.
   */
  scan(cursor: string, match: string, count: number, receiver: ReplyReceiver): void;
  /** Of one server. */
  info(receiver: ReplyReceiver): void;
  /** The server, or the primaries of the cluster that the link knows by now. Omitted if it cannot ask them one by one. */
  servers?(): readonly RedisServer[];
  /** Opens a connection that subscribes, and connects again by itself. */
  subscribe(onMessage: (channel: string) => void): Subscriber;

  /** What an error says of the command that it ended. Never with the arguments of the command. */
  failureOf(error: unknown): LinkFailure;
  onState(listener: (event: LinkEvent) => void): void;
  /** Ends what the link has opened. From then on it is unavailable. */
  close(): Promise<void>;
}
