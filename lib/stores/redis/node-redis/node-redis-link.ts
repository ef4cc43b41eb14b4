import { errorMonitor } from 'node:events';
import { IdempotencyOptionsError } from '../../../core/errors/errors.js';
import { hostAndPort } from '../../../core/util/host-and-port.js';
import { IGNORED, type Commands } from '../link/commands.js';
import type {
  Arguments,
  Keys,
  LinkEvent,
  PublishCommand,
  Redirection,
  RedisLink,
  RedisServer,
  ReplyReceiver,
  RequiredReplicas,
  Subscriber,
} from '../link/redis-link.js';
import { ReplicatedCommands } from '../link/replicated-commands.js';
import { failureOfClient, NotSentError, type LinkFailure } from '../link/send-failure.js';
import { ClientCommands, TEXTS } from './client-commands.js';
import {
  isClusterClient,
  isSentinelClient,
  isSingleClient,
  type ClusterClient,
  type NodeRedisClient,
  type SingleClient,
} from './client-types.js';
import { ClusterRoutes } from './cluster-routes.js';
import { closedAfter, failureOf, unavailableAfter } from './error-classification.js';
import { openReplicated, STALL_TIMEOUT_MS, type Opened } from './own-connection.js';
import { openSubscriber } from './subscriber.js';

/**
 * A link through a client of the application, which it neither closes nor changes.
 * @throws {@link IdempotencyOptionsError} when it is no client that sends each command once.
 */
export function nodeRedisLink(client: NodeRedisClient): RedisLink {
  if (isSentinelClient(client)) {
    throw new IdempotencyOptionsError(
      'nodeRedisStore: client is one of createSentinel, which runs a command again after a lost connection, without a word. Pass a client of createClient or createCluster. For Sentinel, use redisStore of nestjs-idempotency/redis, with ioredis.',
    );
  }
  if (!isClusterClient(client) && !isSingleClient(client)) {
    throw new IdempotencyOptionsError(
      'nodeRedisStore: client must be one of createClient or createCluster of redis 5.12 or later; a pool of createClientPool is none.',
    );
  }
  return new NodeRedisLink(client);
}

/** A link through a connection that the store has opened, and that the link closes. */
export function ownLink(opened: Opened): RedisLink {
  return new NodeRedisLink(opened.client, opened);
}

class NodeRedisLink implements RedisLink {
  readonly keyPrefix: string;
  readonly isCluster: boolean;
  readonly publishCommand: PublishCommand;
  readonly failureOf = failureOf;
  private readonly listeners: ((event: LinkEvent) => void)[] = [];
  private readonly single: Commands | undefined;
  private readonly routes: ClusterRoutes | undefined;
  private lastError: Error | undefined;
  private wasReady: boolean;
  private isClosed = false;

  constructor(
    private readonly client: SingleClient | ClusterClient,
    private readonly opened?: Opened,
  ) {
    const required = opened?.required;
    const owned = opened && {
      stallTimeoutMs: (opened.stallTimeoutMs ?? STALL_TIMEOUT_MS) + (required?.timeoutMs ?? 0),
      isClosed: () => this.isClosed,
    };
    const onMismatch = (error: Extract<LinkEvent, { kind: 'out_of_step' }>['error']) => {
      this.report({ kind: 'out_of_step', error });
    };
    this.isCluster = isClusterClient(client);
    this.publishCommand = this.isCluster ? 'SPUBLISH' : 'PUBLISH';
    if (isClusterClient(client)) {
      this.keyPrefix = client._options?.keyPrefix ?? '';
      const { keyPrefix } = this;
      this.routes = new ClusterRoutes(client, { keyPrefix, onMismatch, owned, required });
    } else {
      this.keyPrefix = client.options?.keyPrefix ?? '';
      const commands = new ClientCommands(client, this.keyPrefix, onMismatch, owned);
      this.single = required === undefined ? commands : new ReplicatedCommands(commands, required);
    }
    this.wasReady = this.isReady;
    client.on(errorMonitor, this.onError);
    for (const event of this.stateEvents) client.on(event, this.onStateEvent);
  }

  get unavailable(): LinkFailure | undefined {
    const { client, opened, lastError } = this;
    if (this.isClosed) return closedAfter(lastError);
    if (this.isReady) return opened?.unverified;
    if (opened === undefined && !client.isOpen && lastError === undefined) return NOT_OPEN;
    return unavailableAfter(lastError);
  }

  evalsha(sha1: string, keys: Keys, args: Arguments, receiver: ReplyReceiver): void {
    this.commandsOf(keys[0]).evalsha(sha1, keys, args, receiver);
  }

  eval(
    text: string,
    keys: Keys,
    args: Arguments,
    receiver: ReplyReceiver,
    redirection?: Redirection,
  ): void {
    if (redirection === undefined) this.commandsOf(keys[0]).eval(text, keys, args, receiver);
    else if (this.routes === undefined) throw redirection.error;
    else this.routes.redirect(redirection).eval(text, keys, args, receiver);
  }

  get(key: string, receiver: ReplyReceiver): void {
    this.commandsOf(key).get(key, receiver);
  }

  set(key: string, value: readonly Buffer[], expiryMs: number): void {
    this.commandsOf(key).set(key, value, expiryMs, IGNORED);
  }

  wait(required: RequiredReplicas): RedisLink {
    return ownLink(openReplicated(this.client, required));
  }

  scan(cursor: string, match: string, count: number, receiver: ReplyReceiver): void {
    (this.routes ?? this.commandsOf()).scan(cursor, match, count, receiver);
  }

  info(receiver: ReplyReceiver): void {
    (this.routes?.any() ?? this.commandsOf()).info(receiver);
  }

  servers(): readonly RedisServer[] {
    const { client } = this;
    const clients = isClusterClient(client)
      ? client.masters.flatMap((node) => node.client ?? [])
      : [client];
    return clients.map(serverOf);
  }

  subscribe(onMessage: (channel: string) => void): Subscriber {
    return openSubscriber(this.client, this.keyPrefix, onMessage);
  }

  onState(listener: (event: LinkEvent) => void): void {
    this.listeners.push(listener);
  }

  async close(): Promise<void> {
    this.isClosed = true;
    const { client } = this;
    client.off(errorMonitor, this.onError);
    for (const event of this.stateEvents) client.off(event, this.onStateEvent);
    await this.opened?.close();
  }

  private get isReady(): boolean {
    const { client, routes } = this;
    return routes === undefined ? (client as SingleClient).isReady : routes.isReady;
  }

  private get stateEvents(): readonly string[] {
    return this.isCluster
      ? ['node-ready', 'node-error', 'node-disconnect', 'connect', 'disconnect']
      : ['ready', 'reconnecting', 'end'];
  }

  private commandsOf(key = ''): Commands {
    const commands = this.single ?? this.routes?.commandsOf(key);
    if (commands === undefined) throw new NotSentError();
    return commands;
  }

  private readonly onError = (error: Error): void => {
    this.lastError = error;
    this.onStateEvent();
  };

  /** node-redis reports a lost connection by several events, and in the middle of what the link itself does. */
  private readonly onStateEvent = (error?: unknown): void => {
    if (error instanceof Error) this.lastError = error;
    queueMicrotask(this.compareState);
  };

  private readonly compareState = (): void => {
    const { isReady } = this;
    if (isReady) this.lastError = undefined;
    if (isReady === this.wasReady) return;
    this.wasReady = isReady;
    this.report({ kind: isReady ? 'ready' : 'lost' });
  };

  private readonly report = (event: LinkEvent): void => {
    for (const listener of this.listeners) listener(event);
  };
}

const NOT_OPEN = failureOfClient(
  'not_executed',
  'the client is not open: await its connect() before you pass it',
);

function serverOf(client: SingleClient): RedisServer {
  const { host = 'localhost', port = 6379, path, tls } = client.options?.socket ?? {};
  return {
    address: path ?? hostAndPort(host, port),
    isEncrypted: tls === true,
    call: (command, ...args) => client.sendCommand([command, ...args], TEXTS),
  };
}
