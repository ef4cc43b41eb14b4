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
  Subscriber,
  RequiredReplicas,
} from '../link/redis-link.js';
import { ReplicatedCommands } from '../link/replicated-commands.js';
import type { MismatchListener } from '../link/reply-order.js';
import type { LinkFailure } from '../link/send-failure.js';
import { ClientCommands, orderOf } from './client-commands.js';
import {
  isBinaryRedisClient,
  knowsShardedChannels,
  type BinaryRedisClient,
  type OwnRedisClient,
  type RedisClient,
} from './client-types.js';
import { ClusterRoutes } from './cluster-routes.js';
import { ConnectionState } from './connection-state.js';
import { failureOf } from './error-classification.js';
import { OwnCommands } from './own-commands.js';
import type { OpenedConnection, OwnConnection } from './own-connection.js';
import { openReplicated } from './replicated-connection.js';
import { checkDatabaseOf } from './selected-database.js';
import { openSubscriber } from './subscriber.js';

/**
 * A link through a client of the application, which it neither closes nor changes.
 * @throws {@link IdempotencyOptionsError} when it is no `Redis` or `Cluster`.
 */
export function ioredisLink(client: RedisClient): RedisLink {
  if (!isBinaryRedisClient(client)) {
    throw new IdempotencyOptionsError(
      'redisStore: client must be a Redis or Cluster of ioredis 5 or 6.',
    );
  }
  return new IoredisLink(client);
}

/** A link through a connection that the store has opened, and that the link closes. */
export function ownLink(own: OwnConnection): RedisLink {
  return new IoredisLink(own.client, own, own.client);
}

class IoredisLink implements RedisLink {
  readonly keyPrefix: string;
  readonly isCluster: boolean;
  readonly publishCommand: PublishCommand;
  readonly failureOf = failureOf;
  private readonly listeners: ((event: LinkEvent) => void)[] = [];
  private readonly state: ConnectionState;
  /** Of the client itself: a `Cluster` routes them. */
  private readonly commands: Commands;
  /** Undefined if there is one server. */
  private readonly routes: ClusterRoutes | undefined;

  /** @param own - the client again, if it may get commands that ioredis has not created. */
  constructor(
    private readonly client: BinaryRedisClient,
    private readonly opened?: OpenedConnection,
    own?: OwnRedisClient,
  ) {
    const { isCluster = false, options } = client;
    this.keyPrefix = options?.keyPrefix ?? '';
    this.isCluster = isCluster;
    this.publishCommand = knowsShardedChannels(client) ? 'SPUBLISH' : 'PUBLISH';
    const { stallDetector, required } = opened ?? {};
    const isOwn = opened !== undefined;
    const database = checkDatabaseOf(client, isOwn, stallDetector);
    this.state = new ConnectionState(client, isOwn, database, this.report);
    const onMismatch: MismatchListener = (error) => {
      this.report({ kind: 'out_of_step', error });
    };
    const order = orderOf(client, onMismatch);
    const commands = new ClientCommands(client, order, {
      // A Cluster has no socket of its own.
      ...(isCluster ? undefined : opened),
      ownCommands: own && stallDetector && new OwnCommands(own, order, stallDetector),
      unreplicated: isCluster && required !== undefined ? FOLLOWED : undefined,
    });
    const isWaiting = required !== undefined && !isCluster;
    this.commands = isWaiting ? new ReplicatedCommands(commands, required) : commands;
    this.routes = isCluster ? new ClusterRoutes(client, commands, onMismatch, opened) : undefined;
  }

  get unavailable(): LinkFailure | undefined {
    return this.state.unavailable;
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
    if (redirection === undefined) {
      this.commandsOf(keys[0]).eval(text, keys, args, receiver);
      return;
    }
    if (this.routes === undefined) throw redirection.error;
    this.routes.redirect(redirection).eval(text, keys, args, receiver);
  }

  get(key: string, receiver: ReplyReceiver): void {
    this.commandsOf(key).get(key, receiver);
  }

  set(key: string, value: readonly Buffer[], expiryMs: number): void {
    this.commandsOf(key).set(key, value, expiryMs, IGNORED);
  }

  wait(required: RequiredReplicas): RedisLink {
    const opened = openReplicated(this.client, required);
    return new IoredisLink(opened.client, opened);
  }

  scan(cursor: string, match: string, count: number, receiver: ReplyReceiver): void {
    (this.routes ?? this.commands).scan(cursor, match, count, receiver);
  }

  info(receiver: ReplyReceiver): void {
    this.commands.info(receiver);
  }

  servers(): readonly RedisServer[] {
    const { client } = this;
    const clients = client.isCluster === true ? (client.nodes?.('master') ?? []) : [client];
    return clients.map(serverOf);
  }

  subscribe(onMessage: (channel: string) => void): Subscriber {
    return openSubscriber(this.client, onMessage);
  }

  onState(listener: (event: LinkEvent) => void): void {
    this.listeners.push(listener);
  }

  async close(): Promise<void> {
    this.state.close();
    await this.opened?.close();
  }

  private commandsOf(key = ''): Commands {
    return this.routes === undefined ? this.commands : this.routes.commandsOf(key);
  }

  private readonly report = (event: LinkEvent): void => {
    for (const listener of this.listeners) listener(event);
  };
}

function serverOf(client: BinaryRedisClient): RedisServer {
  const { tls } = client.options ?? {};
  return {
    address: addressOf(client.options),
    isEncrypted: tls !== undefined && tls !== null && tls !== false,
    call: (command, ...args) => client.call(command, ...args),
  };
}

function addressOf(
  { sentinels, path, host = 'localhost', port }: BinaryRedisClient['options'] = {},
  defaultPort = 6379,
): string {
  if (sentinels !== undefined && sentinels !== null) {
    const addresses = sentinels.map((sentinel) => addressOf(sentinel, 26379));
    return `the primary through ${addresses.join(', ')}`;
  }
  return path ?? hostAndPort(host, port ?? defaultPort);
}

/** Then it is sent again, to where the record is. */
const FOLLOWED = new Error(
  'The command was executed after a redirection, without waiting for replicas.',
);
