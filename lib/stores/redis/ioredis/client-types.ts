import type { RedisArgument } from '../link/redis-link.js';
import type { SocketOpener } from './stream-errors.js';

/** Variants that reply bytes, which ioredis does not declare. Its `callBuffer` loses the name under auto-pipelining. */
export interface CommandClient extends OrderedClient {
  evalshaBuffer(sha1: string, numkeys: number, ...args: RedisArgument[]): Promise<unknown>;
  getBuffer(key: string): Promise<unknown>;
  set(key: string, value: Buffer, px: 'PX', ms: number): Promise<unknown>;
  wait(replicas: number, timeoutMs: number): Promise<unknown>;
  scan(cursor: string, ...args: string[]): Promise<unknown>;
  info(): Promise<string>;
}

export interface OrderedClient {
  evalBuffer(script: string, numkeys: number, ...args: RedisArgument[]): Promise<unknown>;
  readonly status: string;
  readonly isCluster?: boolean;
  /** Clusters only: connections to its servers, to all of them without a role. */
  nodes?(role?: 'master'): ClusterNode[];
  /** Commands without a reply yet; undefined on a cluster. */
  readonly commandQueue?: { readonly length: number };
  /** The socket in use; undefined on a cluster. */
  readonly stream?: ConnectionStream;
}

export interface BinaryRedisClient extends RedisClient, CommandClient {
  connect(): Promise<unknown>;
  select(database: number): Promise<unknown>;
  client(subcommand: 'INFO'): Promise<unknown>;
  call(command: string, ...args: readonly string[]): Promise<unknown>;
  /** State of the current connection; undefined before the first one. */
  readonly condition?: { readonly select?: number } | null;
  /** A new connection with the same settings, except those given; a cluster takes its nodes first. */
  duplicate(...settings: object[]): SubscriberClient & EndingClient & BinaryRedisClient;
  /** Clusters only: the names of the servers of each slot, primary first. */
  readonly slots?: readonly (readonly string[])[];
  /** Clusters only: reads the slot map again. */
  refreshSlotsCache?(): void;
  readonly options?: {
    readonly db?: number;
    readonly keyPrefix?: string;
    readonly redisOptions?: object;
    readonly host?: string;
    readonly port?: number;
    readonly path?: string | null;
    readonly sentinels?: readonly { readonly host?: string; readonly port?: number }[] | null;
    readonly tls?: unknown;
    readonly enableAutoPipelining?: boolean;
    readonly natMap?: NatMap | null;
    /** Of each `Cluster` that knows sharded channels, which that of ioredis 5.4 does not. */
    readonly shardedSubscribers?: boolean;
  };
}

/** Clusters only: maps the addresses that servers announce to those that this process can reach. */
type NatMap =
  | Readonly<Record<string, NodeAddress | undefined>>
  | ((address: string) => NodeAddress | null | undefined);

interface NodeAddress {
  readonly host: string;
  readonly port: number;
}

export type ClusterNode = BinaryRedisClient & EndingClient;

export interface SubscriberClient extends SocketOpener {
  on(event: string, listener: (argument: never) => void): unknown;
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  ssubscribe(channel: string): Promise<unknown>;
  sunsubscribe(channel: string): Promise<unknown>;
  disconnect(): void;
}

export interface EndingClient extends Pick<RedisClient, 'on'>, SocketOpener {
  connect(): Promise<unknown>;
  disconnect(reconnect?: boolean): void;
  /** The socket in use; undefined on a cluster. */
  readonly stream?: ConnectionStream;
}

export interface CorkableStream {
  cork(): void;
  uncork(): void;
}

export interface ConnectionStream extends CorkableStream {
  readonly bytesRead: number;
  destroy(): void;
  readonly _handle?: { readonly writeQueueSize?: number } | null;
}

export interface OwnRedisClient extends BinaryRedisClient, SocketOpener {
  /** Not documented by ioredis. */
  readonly sendCommand?: (command: object) => unknown;
  disconnect(reconnect?: boolean): void;
  once(event: string, listener: () => void): unknown;
  quit(): Promise<unknown>;
}

const METHODS = 'evalshaBuffer evalBuffer getBuffer set info on off duplicate'.split(' ');

export function isBinaryRedisClient(client: unknown): client is BinaryRedisClient {
  if (typeof client !== 'object' || client === null) return false;
  const methods = client as Record<string, unknown>;
  return METHODS.every((method) => typeof methods[method] === 'function');
}

/** Whether it is a `Cluster` that can subscribe to sharded channels. */
export function knowsShardedChannels({ isCluster, options }: BinaryRedisClient): boolean {
  return isCluster === true && options?.shardedSubscribers !== undefined;
}

/**
 * What the store requires of a Redis client: any `Redis` (one server, or Sentinel) or `Cluster` of ioredis 5 or 6.
 * Structural, so that compiling does not require ioredis.
 */
export interface RedisClient {
  readonly status: string;
  // Called with bytes in and out, which ioredis does not declare. These signatures identify the client.
  evalsha(sha1: string, numkeys: number, ...args: string[]): Promise<unknown>;
  eval(script: string, numkeys: number, ...args: string[]): Promise<unknown>;
  info(): Promise<string>;
  on(event: string | symbol, listener: (error: Error) => void): unknown;
  off(event: string | symbol, listener: (error: Error) => void): unknown;
}

/** Options of ioredis: these, and all others that it documents. */
export interface RedisConnectionOptions {
  readonly host?: string | undefined;
  /** @defaultValue 6379 */
  readonly port?: number | undefined;
  /** Unix socket, instead of host and port. */
  readonly path?: string | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** @defaultValue 0 */
  readonly db?: number | undefined;
  /** Options of `tls.connect`. */
  readonly tls?: object | undefined;
  readonly sentinels?: readonly { readonly host?: string; readonly port?: number }[] | undefined;
  /** Name of the primary that the Sentinels monitor. */
  readonly name?: string | undefined;
  readonly connectionName?: string | undefined;
  readonly socketTimeout?: number | undefined;
  readonly enableAutoPipelining?: boolean | undefined;
  readonly [option: string]: unknown;
}
