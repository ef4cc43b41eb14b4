export type ScriptArgument = string | Buffer;

/**
 * The variants that leave a reply as bytes. Every ioredis client has them and no declaration of ioredis
 * says so; the declared `callBuffer` loses the command's name under auto-pipelining.
 */
export interface ScriptClient {
  evalshaBuffer(sha1: string, numkeys: number, ...args: ScriptArgument[]): Promise<unknown>;
  evalBuffer(script: string, numkeys: number, ...args: ScriptArgument[]): Promise<unknown>;
  wait(replicas: number, timeoutMs: number): Promise<unknown>;
  readonly stream?: ConnectionStream;
}

/** A client whose replies are looked at: whether they come in step with its commands. */
export interface OrderedClient extends Pick<ScriptClient, 'evalBuffer'> {
  readonly status: string;
  readonly isCluster?: boolean;
  /** Of a cluster: connections to its servers, to all of them where no role is given. */
  nodes?(role?: 'master'): ClusterNode[];
  /** What was sent and is not answered yet; a cluster has none of its own. */
  readonly commandQueue?: { readonly length: number };
  /** The socket in use; a cluster has none of its own. */
  readonly stream?: ConnectionStream;
}

export interface BinaryRedisClient extends RedisClient, KeyScanner, ScriptClient, OrderedClient {
  connect(): Promise<unknown>;
  select(database: number): Promise<unknown>;
  client(subcommand: 'INFO'): Promise<unknown>;
  /** Of the connection as it is; none before the first. */
  readonly condition?: { readonly select?: number } | null;
  /** Another connection with the same settings, but for those given; a cluster takes its nodes first. */
  duplicate(...settings: object[]): SubscriberClient & ReplicatedClient;
  /** Of a cluster: the names of the servers of each slot, the primary first. */
  readonly slots?: readonly (readonly string[])[];
  /** Of a cluster: asks who has the slots. */
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

/** Of a cluster: where its servers are reached from here, by the addresses that they say. */
type NatMap =
  | Readonly<Record<string, NodeAddress | undefined>>
  | ((address: string) => NodeAddress | null | undefined);

interface NodeAddress {
  readonly host: string;
  readonly port: number;
}

/** The connection of a cluster to one of its servers. */
export type ClusterNode = BinaryRedisClient & EndingClient;

/** What it takes to go through the keys of one server. */
export interface KeyScanner {
  scan(cursor: string, ...args: string[]): Promise<[cursor: string, keys: string[]]>;
  readonly options?: { readonly host?: string; readonly port?: number };
}

/** What a connection needs that only listens. */
export interface SubscriberClient {
  on(event: string, listener: (channel: string) => void): unknown;
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  ssubscribe(channel: string): Promise<unknown>;
  sunsubscribe(channel: string): Promise<unknown>;
  disconnect(): void;
}

/** What a connection needs on which WAIT follows each script. */
export type ReplicatedClient = BinaryRedisClient & EndingClient;

/** What it takes to end a connection and to bring it back. */
export interface EndingClient extends Pick<RedisClient, 'on'> {
  connect(): Promise<unknown>;
  disconnect(reconnect?: boolean): void;
  /** The socket in use; a cluster has none of its own. */
  readonly stream?: ConnectionStream;
}

/** A stream that can hold back what is written to it. */
export interface CorkableStream {
  cork(): void;
  uncork(): void;
}

/** What is used of a socket. */
export interface ConnectionStream extends CorkableStream {
  readonly bytesRead: number;
  destroy(): void;
  readonly _handle?: { readonly writeQueueSize?: number } | null;
}

/** What opening and closing a connection needs besides. */
export interface OwnRedisClient extends BinaryRedisClient {
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
 * What the store needs of a Redis client: any `Redis` (one server, or Sentinel) or `Cluster` of ioredis 5
 * or 6 will do. Structural, so that nobody needs ioredis to compile.
 */
export interface RedisClient {
  readonly status: string;
  // Called in the forms that ioredis does not declare, with bytes in and out; these tell them from others.
  evalsha(sha1: string, numkeys: number, ...args: string[]): Promise<unknown>;
  eval(script: string, numkeys: number, ...args: string[]): Promise<unknown>;
  info(): Promise<string>;
  on(event: string | symbol, listener: (error: Error) => void): unknown;
  off(event: string | symbol, listener: (error: Error) => void): unknown;
}
