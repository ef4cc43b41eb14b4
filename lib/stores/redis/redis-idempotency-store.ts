import { IdempotencyOptionsError, type StoreReplyMismatchedError } from '../../core/errors.js';
import {
  IdempotencyStore,
  type Abandoned,
  type AbandonedPage,
  type Begin,
  type BeginReply,
  type Complete,
  type CompleteReply,
  type Extend,
  type ExtendReply,
  type IdempotencyRecord,
  type Inspect,
  type Release,
  type ReleaseReply,
  type StopWatching,
  type StoreObserver,
  type StoreWarning,
  type Watch,
} from '../../core/idempotency-store.js';
import type { Lease, RecordKey } from '../../core/record.js';
import { AbandonedScan } from './abandoned-scan.js';
import { parseBeginReply } from './begin-reply.js';
import { isBinaryRedisClient, type BinaryRedisClient } from './binary-client.js';
import { ConnectionWatch } from './connection-watch.js';
import { parseInspectReply } from './inspect-reply.js';
import { checkedKeyPrefix } from './key-prefix.js';
import { loadScripts, type LuaScripts } from './lua-scripts.js';
import { bodyArgument, headerLine, originWord } from './record-text.js';
import type { RedisClient } from './redis-client.js';
import { ReplyOrder } from './reply-order.js';
import { ClusterLinks, type ScriptLink, type ScriptLinks } from './script-links.js';
import type { WaitReplicas } from './redis-store-options.js';
import type { OwnConnection } from './own-connection.js';
import { openReplicated } from './open-replicated.js';
import { ReplicatedRunner } from './replicated-runner.js';
import { ScriptRunner, type ArgumentSource, type ReplyReader } from './script-runner.js';
import { parseCompleteReply, parseExtendReply, parseReleaseReply } from './settle-replies.js';
import { checkServer } from './start-checks.js';
import { openSubscriber, publishCommand, type PublishCommand } from './subscriber.js';
import { Subscriptions } from './subscriptions.js';

export interface RedisIdempotencyStoreOptions {
  /** The connection; it stays its owner's. */
  readonly client: RedisClient;

  /**
   * First part of every key, see {@link RedisStoreOptions.keyPrefix}.
   *
   * @defaultValue `'idem'`
   */
  readonly keyPrefix?: string | undefined;

  /**
   * Whether waiting duplicates are told of the end they wait for, see {@link RedisStoreOptions.push}.
   *
   * @defaultValue true
   */
  readonly push?: boolean | undefined;

  /**
   * How many replicas have to have a begin and a completion, see {@link RedisStoreOptions.waitReplicas}.
   *
   * @defaultValue off
   */
  readonly waitReplicas?: WaitReplicas | undefined;

  /** @internal */
  readonly scripts?: LuaScripts;

  /**
   * The connection, where it is the store's own.
   *
   * @internal
   */
  readonly ownConnection?: OwnConnection;
}

/** Version of the key's form; that of the record's form stands in the record. */
const KEY_VERSION = '1';

/**
 * Keeps each record in one Redis key and takes each step by one script, in one round trip.
 *
 * Made by {@link redisStore}; the class is there for those who wire it up themselves.
 */
export class RedisIdempotencyStore extends IdempotencyStore {
  private readonly client: BinaryRedisClient;
  private readonly scripts: LuaScripts;
  private readonly connection: ConnectionWatch;
  private readonly subscriptions: Subscriptions | undefined;
  private readonly publish: PublishCommand;
  private readonly runner: ScriptRunner;
  /** Of the client itself, a cluster's as a whole. */
  private readonly order: ReplyOrder;
  private readonly replicated: ReplicatedRunner | undefined;
  private readonly keyStart: string;
  private readonly scan: AbandonedScan;
  private readonly ownConnection: OwnConnection | undefined;
  private observer: StoreObserver | undefined;

  /** @throws {@link IdempotencyOptionsError} when an option cannot work. */
  constructor(options: RedisIdempotencyStoreOptions) {
    super();
    const { client, keyPrefix, push = true, waitReplicas, scripts, ownConnection } = options;
    if (!isBinaryRedisClient(client)) {
      throw new IdempotencyOptionsError('client must be a Redis or Cluster of ioredis 5 or 6.');
    }
    this.client = client;
    this.keyStart = `${checkedKeyPrefix(keyPrefix)}:${KEY_VERSION}:`;
    this.scripts = scripts ?? loadScripts();
    this.connection = new ConnectionWatch(
      client,
      ownConnection !== undefined,
      ownConnection?.silence,
    );
    this.subscriptions = push ? new Subscriptions(() => openSubscriber(client)) : undefined;
    this.publish = publishCommand(client);
    const tell = (error: StoreReplyMismatchedError) => this.observer?.replyMismatched(error);
    this.order = new ReplyOrder(client, tell);
    const link: ScriptLink = {
      client,
      keyPrefix: '',
      order: this.order,
      batch: ownConnection?.batch,
    };
    const links: ScriptLinks =
      client.isCluster === true ? new ClusterLinks(client, tell) : { linkOf: () => link };
    this.runner = new ScriptRunner(links, this.connection);
    const { abandoned } = this.scripts;
    this.scan = new AbandonedScan(
      client,
      this.connection,
      (scanned) => (scanned === client ? this.order : new ReplyOrder(scanned, tell)),
      this.runner,
      abandoned,
      this.keyStart,
    );
    this.replicated =
      waitReplicas &&
      new ReplicatedRunner(openReplicated(client), Object.freeze(waitReplicas), tell);
    this.ownConnection = ownConnection;
  }

  override open(observer?: StoreObserver): Promise<readonly StoreWarning[]> {
    this.observer = observer;
    return checkServer(this.client, this.connection, this.order, this.replicated?.required.count);
  }

  override begin(command: Begin): Promise<BeginReply> {
    const args = () => [
      command.token,
      command.fingerprint,
      String(command.leaseMs),
      String(command.maxExecutionMs),
      String(command.recordRetentionMs),
      String(command.notAfter),
      command.onExpiredLease,
      originWord(command.origin),
    ];
    return this.run('begin', command.recordKey, args, command, parseBeginReply, this.replicated);
  }

  override extend({ recordKey, token, fence }: Lease, command: Extend): Promise<ExtendReply> {
    const args = () => [
      token,
      String(fence),
      String(command.leaseMs),
      String(command.recordRetentionMs),
    ];
    return this.run('extend', recordKey, args, command, parseExtendReply);
  }

  override complete({ recordKey, token, fence }: Lease, command: Complete): Promise<CompleteReply> {
    const args = () => [
      token,
      String(fence),
      command.state === 'completed' ? 'c' : 'f',
      String(command.retentionMs),
      command.fingerprint,
      command.whenGone,
      headerLine(command.outcome.header),
      bodyArgument(command.outcome.body),
      this.notification(command),
    ];
    return this.run('complete', recordKey, args, command, parseCompleteReply, this.replicated);
  }

  override release({ recordKey, token, fence }: Lease, command: Release): Promise<ReleaseReply> {
    const args = () => [
      token,
      String(fence),
      String(command.tombstoneMs),
      this.notification(command),
    ];
    return this.run('release', recordKey, args, command, parseReleaseReply);
  }

  override inspect(recordKey: RecordKey, command: Inspect): Promise<IdempotencyRecord | undefined> {
    return this.run('inspect', recordKey, () => [], command, parseInspectReply);
  }

  override async watch(
    recordKey: RecordKey,
    onEnd: () => void,
    { timeoutMs }: Watch,
  ): Promise<StopWatching | undefined> {
    return this.subscriptions?.watch(this.keyStart + recordKey, onEnd, timeoutMs);
  }

  override async abandoned(command: Abandoned): Promise<AbandonedPage> {
    return this.scan.page(command);
  }

  override async close(): Promise<void> {
    this.connection.close();
    this.subscriptions?.close();
    this.replicated?.close();
    await this.ownConnection?.close();
  }

  private notification({ notify = false }: Complete | Release): string {
    return notify && this.subscriptions !== undefined ? this.publish : '-';
  }

  /** @param runner - for a step that a failover must not lose, where `waitReplicas` says so. */
  private run<Result>(
    step: keyof LuaScripts,
    recordKey: RecordKey,
    args: ArgumentSource,
    { timeoutMs }: { readonly timeoutMs: number },
    read: ReplyReader<Result>,
    runner: Pick<ScriptRunner, 'run'> = this.runner,
  ): Promise<Result> {
    return runner.run(this.scripts[step], this.keyStart + recordKey, args, timeoutMs, read);
  }
}
