import { IdempotencyOptionsError } from '../../../core/errors/errors.js';
import { IGNORED } from '../link/commands.js';
import type {
  Arguments,
  Keys,
  LinkEvent,
  Redirection,
  RedisLink,
  ReplyReceiver,
  Subscriber,
} from '../link/redis-link.js';
import { failureOfClient, type LinkFailure } from '../link/send-failure.js';
import { ClientCommands } from './client-commands.js';
import {
  isClusterClient,
  isGlideClient,
  type GlideClient,
  type ValkeyGlideClient,
} from './client-types.js';
import { failureOf } from './error-classification.js';

/**
 * A link through a client of the application, which it neither closes nor changes.
 * @throws {@link IdempotencyOptionsError} when it is no client of GLIDE.
 */
export function glideLink(client: ValkeyGlideClient): RedisLink {
  if (!isGlideClient(client)) {
    throw new IdempotencyOptionsError(
      'glideStore: client must be a GlideClient or a GlideClusterClient of @valkey/valkey-glide 2: await its createClient() before. For a client of ioredis use redisStore of nestjs-idempotency/redis, for one of redis nodeRedisStore of nestjs-idempotency/node-redis.',
    );
  }
  return new GlideLink(client);
}

/** GLIDE says nothing of its connections, and opens none for subscriptions or for WAIT: both are refused. */
class GlideLink implements RedisLink {
  readonly keyPrefix = '';
  readonly isCluster: boolean;
  readonly publishCommand = 'PUBLISH';
  readonly failureOf = failureOf;
  private readonly listeners: ((event: LinkEvent) => void)[] = [];
  private readonly commands: ClientCommands;
  private isClosed = false;

  constructor(private readonly client: GlideClient) {
    this.isCluster = isClusterClient(client);
    this.commands = new ClientCommands(client, this.isCluster, (error) => {
      for (const listener of this.listeners) listener({ kind: 'out_of_step', error });
    });
  }

  get unavailable(): LinkFailure | undefined {
    if (this.isClosed || this.client.isClosed === true) return CLOSED;
    return this.commands.isReady ? undefined : REPLACING;
  }

  evalsha(sha1: string, keys: Keys, args: Arguments, receiver: ReplyReceiver): void {
    this.commands.evalsha(sha1, keys, args, receiver);
  }

  eval(
    text: string,
    keys: Keys,
    args: Arguments,
    receiver: ReplyReceiver,
    redirection?: Redirection,
  ): void {
    // The client knows the servers, and follows by itself, but not many at once: the next attempt is after a pause.
    if (redirection !== undefined) throw redirection.error;
    this.commands.eval(text, keys, args, receiver);
  }

  get(key: string, receiver: ReplyReceiver): void {
    this.commands.get(key, receiver);
  }

  set(key: string, value: readonly Buffer[], expiryMs: number): void {
    this.commands.set(key, value, expiryMs, IGNORED);
  }

  wait(): RedisLink {
    throw new IdempotencyOptionsError(
      'glideStore: GLIDE opens no connection for WAIT. Use redisStore or nodeRedisStore, whose records are the same.',
    );
  }

  scan(cursor: string, match: string, count: number, receiver: ReplyReceiver): void {
    this.commands.scan(cursor, match, count, receiver);
  }

  info(receiver: ReplyReceiver): void {
    this.commands.info(receiver);
  }

  subscribe(): Subscriber {
    throw new IdempotencyOptionsError(
      'glideStore: GLIDE takes subscriptions only when a client is created. Leave "push" at false.',
    );
  }

  onState(listener: (event: LinkEvent) => void): void {
    this.listeners.push(listener);
  }

  close(): Promise<void> {
    this.isClosed = true;
    return Promise.resolve();
  }
}

const CLOSED = failureOfClient('rejected', 'the connection is closed');
const REPLACING = failureOfClient('not_executed', 'the connection is being replaced');
