import type { RedisArgument } from '../link/redis-link.js';

/**
 * What the store requires of a client: one of `createClient`, or of `createCluster`, of `redis` 5.12 or later.
 * Structural, so that compiling does not require `redis`.
 */
export interface NodeRedisClient {
  readonly isOpen: boolean;
  sendCommand(...args: never[]): Promise<unknown>;
  duplicate(...overrides: never[]): unknown;
  on(event: string | symbol, listener: (error: Error) => void): unknown;
  off(event: string | symbol, listener: (error: Error) => void): unknown;
  /** Of `createSentinel`, whose client runs a command again after a lost connection. */
  readonly getMasterNode?: never;
}

/** How one command is sent: in the place of what the client is set to. */
export interface CommandOptions {
  readonly typeMapping: Readonly<Record<number, unknown>>;
  readonly timeout: undefined;
  readonly abortSignal: undefined;
  readonly asap: undefined;
}

type Listening = Pick<NodeRedisClient, 'on' | 'off' | 'isOpen'> & {
  connect(): Promise<unknown>;
  destroy(): void;
};

/** Of one server. */
export interface SingleClient extends Listening {
  readonly isReady: boolean;
  readonly options?: {
    readonly database?: number;
    readonly keyPrefix?: string;
    readonly socket?: {
      readonly host?: string;
      readonly port?: number;
      readonly path?: string;
      readonly tls?: unknown;
    };
  };
  /** Counts the connections so far. */
  readonly socketEpoch: number;
  sendCommand(args: readonly RedisArgument[], options: CommandOptions): Promise<unknown>;
  /** The same connection, with other options for its commands. */
  withCommandOptions(options: CommandOptions): Pick<SingleClient, 'sendCommand'>;
  duplicate(overrides: object): SingleClient;
  subscribe(channel: string, listener: (message: string, channel: string) => void): Promise<void>;
  unsubscribe(channel: string): Promise<void>;
  /** Not documented by node-redis. */
  _getQueue?(): { isEmpty(): boolean };
}

export interface ClusterNode {
  readonly host: string;
  readonly port: number;
  /** Undefined until the node is first used. */
  readonly client?: SingleClient | undefined;
}

export interface ClusterClient extends Listening {
  readonly slots: readonly ({ readonly master: ClusterNode } | undefined)[];
  readonly masters: readonly ClusterNode[];
  /** By the address that the cluster announces. */
  readonly nodeByAddress: ReadonlyMap<string, ClusterNode>;
  /** Connects to the node, if it is not connected. */
  nodeClient(node: ClusterNode): unknown;
  duplicate(overrides: object): ClusterClient;
  sSubscribe(channel: string, listener: (message: string, channel: string) => void): Promise<void>;
  sUnsubscribe(
    channel: string,
    listener: (message: string, channel: string) => void,
  ): Promise<void>;
  /** Not documented by node-redis. */
  readonly _options?: { readonly keyPrefix?: string; readonly defaults?: object };
  /** Not documented by node-redis: reads the slot map again. */
  readonly _slots?: { rediscover?(startWith?: SingleClient): Promise<unknown> };
}

export function isClusterClient(client: unknown): client is ClusterClient {
  return has(client, 'sendCommand duplicate on off sSubscribe nodeClient') && 'slots' in client;
}

export function isSingleClient(client: unknown): client is SingleClient {
  return (
    has(client, 'sendCommand withCommandOptions duplicate on off subscribe destroy') &&
    typeof (client as Partial<SingleClient>).isReady === 'boolean' &&
    typeof (client as Partial<SingleClient>).socketEpoch === 'number'
  );
}

export function isSentinelClient(client: unknown): boolean {
  return has(client, 'getMasterNode');
}

function has(client: unknown, methods: string): client is object {
  if (typeof client !== 'object' || client === null) return false;
  const found = client as Record<string, unknown>;
  return methods.split(' ').every((method) => typeof found[method] === 'function');
}
