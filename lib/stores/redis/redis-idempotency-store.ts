import type { Lease, RecordKey } from '../../core/record/record.js';
import { IdempotencyStore } from '../../core/store/idempotency-store.js';
import type * as Store from '../../core/store/idempotency-store.js';
import { Openings } from '../../core/store/openings.js';
import { IdempotencyOptionsError, StoreUnavailableError } from '../../core/util/errors.js';
import { isBinaryRedisClient, type RedisClient } from './ioredis/client-types.js';
import type { OwnConnection } from './ioredis/own-connection.js';
import { resolveCommonOptions, type CommonOptions } from './ioredis/redis-store-options.js';
import { RedisSession, type SessionSettings } from './redis-session.js';
import { loadScripts, type LuaScripts } from './scripts/lua-scripts.js';
import {
  parseBeginReply,
  parseCompleteReply,
  parseExtendReply,
  parseInspectReply,
  parseReleaseReply,
} from './scripts/replies.js';
import {
  beginArguments,
  completeArguments,
  extendArguments,
  releaseArguments,
} from './scripts/script-arguments.js';
import type { ArgumentSource, ReplyReader } from './scripts/script-runner.js';
import type { PublishCommand } from './subscriptions.js';

/** Options of {@link RedisIdempotencyStore}, which gets its connection; see {@link redisStore}. */
export interface RedisIdempotencyStoreOptions extends CommonOptions {
  /** The connection. The store does not close it. */
  readonly client: RedisClient;

  /** @internal */
  readonly scripts?: LuaScripts;
}

/** Without a client: opens a connection each time the store is opened. @internal */
export interface OwnConnectionStoreOptions extends Omit<RedisIdempotencyStoreOptions, 'client'> {
  readonly client?: undefined;
  readonly connect: (warned: (warning: Store.StoreWarning) => boolean) => Promise<OwnConnection>;
}

/** Version of the key's format. The record contains the version of its own format. */
const KEY_VERSION = '1';

/** What precedes the record key in a key. */
export function keyStartOf(keyPrefix: string): string {
  return `${keyPrefix}:${KEY_VERSION}:`;
}

/** Stores each record in one Redis key; each step is one script, in one round trip. Created by {@link redisStore}. */
export class RedisIdempotencyStore extends IdempotencyStore {
  private readonly settings: SessionSettings;
  private readonly openings = new Openings();
  private readonly connect: () => Promise<RedisSession>;
  /** Undefined until connected. After close, it rejects every command. */
  private session: RedisSession | undefined;
  private starting: Promise<RedisSession> | undefined;
  /** Calls of open() in progress. They return their warnings themselves. */
  private scanning = 0;
  private isClosed = false;

  /** @throws {@link IdempotencyOptionsError} when an option is invalid. */
  constructor(options: RedisIdempotencyStoreOptions);
  /** @internal */
  // eslint-disable-next-line @typescript-eslint/unified-signatures -- It is not declared to users.
  constructor(options: OwnConnectionStoreOptions);
  constructor(options: RedisIdempotencyStoreOptions | OwnConnectionStoreOptions) {
    super();
    const { keyPrefix, push, waitReplicas } = resolveCommonOptions(options);
    this.settings = {
      keyStart: keyStartOf(keyPrefix),
      scripts: options.scripts ?? loadScripts(),
      push,
      waitReplicas,
      onMismatch: (error) => {
        this.openings.replyMismatched(error);
      },
    };
    const { client } = options;
    if (client === undefined) {
      const { connect } = options;
      this.connect = async () => {
        const own = await connect((warning) => this.scanning > 0 || this.openings.warned(warning));
        return new RedisSession(own.client, this.settings, own);
      };
      return;
    }
    if (!isBinaryRedisClient(client)) {
      throw new IdempotencyOptionsError(
        'redisStore: client must be a Redis or Cluster of ioredis 5 or 6.',
      );
    }
    this.connect = () => Promise.resolve(new RedisSession(client, this.settings));
    // Records the errors of the connection from now on.
    this.session = new RedisSession(client, this.settings);
    this.starting = Promise.resolve(this.session);
  }

  override get system(): string {
    return 'redis';
  }

  override async open(observer?: Store.StoreObserver): Promise<readonly Store.StoreWarning[]> {
    this.openings.add(observer);
    this.isClosed = false;
    this.scanning += 1;
    try {
      const session = await this.start();
      return await session.check();
    } catch (error) {
      await this.close(observer);
      throw error;
    } finally {
      this.scanning -= 1;
    }
  }

  override begin(command: Store.Begin): Promise<Store.BeginReply> {
    const args = () => beginArguments(command);
    return this.run('begin', command.recordKey, args, command, parseBeginReply, true);
  }

  override extend(lease: Lease, command: Store.Extend): Promise<Store.ExtendReply> {
    const args = () => extendArguments(lease, command);
    return this.run('extend', lease.recordKey, args, command, parseExtendReply);
  }

  override complete(lease: Lease, command: Store.Complete): Promise<Store.CompleteReply> {
    const args = () => completeArguments(lease, command, this.publishFor(command));
    return this.run('complete', lease.recordKey, args, command, parseCompleteReply, true);
  }

  override release(lease: Lease, command: Store.Release): Promise<Store.ReleaseReply> {
    const args = () => releaseArguments(lease, command, this.publishFor(command));
    return this.run('release', lease.recordKey, args, command, parseReleaseReply);
  }

  override inspect(
    recordKey: RecordKey,
    command: Store.Inspect,
  ): Promise<Store.IdempotencyRecord | undefined> {
    return this.run('inspect', recordKey, () => [], command, parseInspectReply);
  }

  override async watch(
    recordKey: RecordKey,
    onEnd: () => void,
    { timeoutMs }: Store.Watch,
  ): Promise<Store.StopWatching | undefined> {
    const { subscriptions } = this.session ?? (await this.start());
    return subscriptions?.watch(this.settings.keyStart + recordKey, onEnd, timeoutMs);
  }

  override async abandoned(command: Store.Abandoned): Promise<Store.AbandonedPage> {
    const { scan } = this.session ?? (await this.start());
    return scan.page(command);
  }

  /** As `ForgettingStore`. @internal */
  async forget(recordKey: RecordKey): Promise<undefined> {
    await this.session?.forget(this.settings.keyStart + recordKey);
  }

  override async close(observer?: Store.StoreObserver): Promise<void> {
    if (!this.openings.remove(observer)) return;
    const { starting } = this;
    this.isClosed = true;
    this.starting = undefined;
    const session = await starting?.catch(() => undefined);
    await session?.close();
  }

  private publishFor({ notify }: Store.Complete | Store.Release): PublishCommand | undefined {
    const { session, settings } = this;
    return notify === true && settings.push ? (session?.publish ?? 'PUBLISH') : undefined;
  }

  /** @param isReplicated - a step that `waitReplicas` protects from a failover. */
  private run<Result>(
    step: keyof LuaScripts,
    recordKey: RecordKey,
    args: ArgumentSource,
    { timeoutMs }: { readonly timeoutMs: number },
    read: ReplyReader<Result>,
    isReplicated = false,
  ): Promise<Result> {
    const { scripts, keyStart } = this.settings;
    const run = (session: RedisSession) => {
      const runner = isReplicated ? session.durable() : session.runner;
      return runner.run(scripts[step], keyStart + recordKey, args, timeoutMs, read);
    };
    const { session } = this;
    return session === undefined ? this.start().then(run) : run(session);
  }

  /** Called by the first command: without Nest, a store is used without being opened. */
  private start(): Promise<RedisSession> {
    if (this.starting !== undefined) return this.starting;
    if (this.isClosed) {
      return Promise.reject(
        new StoreUnavailableError('Redis did not execute the command: the connection is closed'),
      );
    }
    const starting = this.connect();
    this.starting = starting;
    starting.then(
      (session) => {
        if (this.starting === starting) this.session = session;
      },
      () => {
        if (this.starting === starting) this.starting = undefined;
      },
    );
    return starting;
  }
}
