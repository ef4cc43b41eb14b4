import { newProbeKey } from '../../core/record/record-key.js';
import type { StoreWarning } from '../../core/store/idempotency-store.js';
import { nodeClock } from '../../core/util/clock.js';
import { AbandonedScan } from './abandoned-scan.js';
import type { BinaryRedisClient } from './ioredis/client-types.js';
import { ConnectionState } from './ioredis/connection-state.js';
import type { OwnConnection } from './ioredis/own-connection.js';
import type { WaitReplicas } from './ioredis/redis-store-options.js';
import { checkDatabaseOf } from './ioredis/selected-database.js';
import { LargeRecordRunner } from './scripts/large-records.js';
import type { LuaScripts } from './scripts/lua-scripts.js';
import { openReplicated, ReplicatedRunner } from './scripts/replicated-runner.js';
import { ReplyOrder, type MismatchListener } from './scripts/reply-order.js';
import { ClusterLinks, type ScriptLink, type ScriptLinks } from './scripts/script-links.js';
import { ScriptForm, ScriptRunner } from './scripts/script-runner.js';
import { checkServer } from './start-checks.js';
import { checkRights } from './start-rights.js';
import {
  openSubscriber,
  publishCommand,
  Subscriptions,
  type PublishCommand,
} from './subscriptions.js';

export interface SessionSettings {
  /** What precedes the record key in a key. */
  readonly keyStart: string;
  readonly scripts: LuaScripts;
  readonly push: boolean;
  readonly waitReplicas: WaitReplicas | undefined;
  readonly onMismatch: MismatchListener;
}

/** Everything that uses the connections of a store, from open to close. */
export class RedisSession {
  readonly runner: ScriptRunner;
  readonly scan: AbandonedScan;
  readonly subscriptions: Subscriptions | undefined;
  readonly publish: PublishCommand;
  private readonly connection: ConnectionState;
  /** Of the client itself; on a cluster, of the cluster as a whole. */
  private readonly order: ReplyOrder;
  private readonly form = new ScriptForm();
  private replicated: ReplicatedRunner | undefined;
  private isClosed = false;

  /** @param own - the connection, if the store opened it. */
  constructor(
    private readonly client: BinaryRedisClient,
    private readonly settings: SessionSettings,
    private readonly own?: OwnConnection,
  ) {
    const { push, scripts, keyStart, onMismatch } = settings;
    const isOwn = own !== undefined;
    const database = checkDatabaseOf(client, isOwn, own?.stallDetector);
    this.connection = new ConnectionState(client, isOwn, own?.stallDetector, database);
    this.subscriptions = push ? new Subscriptions(() => openSubscriber(client)) : undefined;
    this.publish = publishCommand(client);
    this.order = new ReplyOrder(client, onMismatch);
    const link: ScriptLink = {
      client,
      keyPrefix: '',
      order: this.order,
      corkedWrites: own?.corkedWrites,
      ownCommands: own?.ownCommands,
    };
    const links: ScriptLinks =
      client.isCluster === true ? new ClusterLinks(client, onMismatch) : { linkOf: () => link };
    this.runner =
      own === undefined
        ? new ScriptRunner(links, this.connection, this.form)
        : new LargeRecordRunner(own.client, links, this.connection, this.form, scripts);
    this.scan = new AbandonedScan(
      client,
      this.connection,
      (scanned) => (scanned === client ? this.order : new ReplyOrder(scanned, onMismatch)),
      this.runner,
      scripts.abandoned,
      keyStart,
    );
  }

  /** For steps that `waitReplicas` protects. */
  durable(): Pick<ScriptRunner, 'run'> {
    const { waitReplicas, onMismatch } = this.settings;
    // A connection opened now would never be closed.
    if (waitReplicas === undefined || this.isClosed) return this.replicated ?? this.runner;
    return (this.replicated ??= new ReplicatedRunner(
      openReplicated(this.client),
      waitReplicas,
      onMismatch,
      this.form,
    ));
  }

  async check(): Promise<readonly StoreWarning[]> {
    const { client, connection, order, settings, form } = this;
    const checked = checkServer(client, connection, order, settings.waitReplicas?.count);
    // Connects before the first request.
    this.durable();
    const { warnings, hasScriptFlags } = await checked;
    form.found(hasScriptFlags);
    if (warnings.some(({ isOutage }) => isOutage)) return warnings;
    const key = settings.keyStart + newProbeKey(nodeClock);
    const publish = settings.push ? this.publish : undefined;
    const denied = await checkRights(client, connection, order, key, publish);
    return [...warnings, ...denied];
  }

  /** By a right that every user of the store has. */
  async forget(key: string): Promise<void> {
    await this.client.evalBuffer("return redis.call('PEXPIREAT', KEYS[1], 1)", 1, key);
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.connection.close();
    this.subscriptions?.close();
    this.replicated?.close();
    await this.own?.close();
  }
}
