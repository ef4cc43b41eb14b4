import type { SocketOpener } from './stream-errors.js';

export type ScriptArgument = string | Buffer;

/** Variants that reply bytes, which ioredis does not declare. Its `callBuffer` loses the name under auto-pipelining. */
export interface ScriptClient {
  evalshaBuffer(sha1: string, numkeys: number, ...args: ScriptArgument[]): Promise<unknown>;
  evalBuffer(script: string, numkeys: number, ...args: ScriptArgument[]): Promise<unknown>;
  wait(replicas: number, timeoutMs: number): Promise<unknown>;
  readonly stream?: ConnectionStream;
}

export interface OrderedClient extends Pick<ScriptClient, 'evalBuffer'> {
  readonly status: string;
  readonly isCluster?: boolean;
  /** Clusters only: connections to its servers, to all of them without a role. */
  nodes?(role?: 'master'): ClusterNode[];
  /** Commands without a reply yet; undefined on a cluster. */
  readonly commandQueue?: { readonly length: number };
  /** The socket in use; undefined on a cluster. */
  readonly stream?: ConnectionStream;
}

export interface BinaryRedisClient extends RedisClient, KeyScanner, ScriptClient, OrderedClient {
  connect(): Promise<unknown>;
  select(database: number): Promise<unknown>;
  client(subcommand: 'INFO'): Promise<unknown>;
  /** State of the current connection; undefined before the first one. */
  readonly condition?: { readonly select?: number } | null;
  /** A new connection with the same settings, except those given; a cluster takes its nodes first. */
  duplicate(...settings: object[]): SubscriberClient & ReplicatedClient;
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
    readonly enableAutoPipelining?: boolean;
    readonly natMap?: NatMap | null;
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

export interface KeyScanner {
  scan(cursor: string, ...args: string[]): Promise<[cursor: string, keys: string[]]>;
  readonly options?: { readonly host?: string; readonly port?: number };
}

export interface SubscriberClient extends SocketOpener {
  on(event: string, listener: (argument: never) => void): unknown;
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  ssubscribe(channel: string): Promise<unknown>;
  sunsubscribe(channel: string): Promise<unknown>;
  disconnect(): void;
}

/** A connection on which WAIT follows each script. */
export type ReplicatedClient = BinaryRedisClient & EndingClient;

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
  set(key: string, value: Buffer, px: 'PX', ms: number): Promise<unknown>;
  getBuffer(key: string): Promise<unknown>;
  /** Not documented by ioredis. */
  readonly sendCommand?: (command: object) => unknown;
  disconnect(reconnect?: boolean): void;
  once(event: string, listener: () => void): unknown;
  quit(): Promise<unknown>;
}

const METHODS = ['evalshaBuffer', 'evalBuffer', 'info', 'on', 'off', 'duplicate'] as const;

export function isBinaryRedisClient(client: unknown): client is BinaryRedisClient {
  if (typeof client !== 'object' || client === null) return false;
  const methods = client as Record<string, unknown>;
  return METHODS.every((method) => typeof methods[method] === 'function');
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
