import { Redis } from 'ioredis';
import type { IdempotencyStore } from 'nestjs-idempotency';
import type { RedisConnectionOptions } from 'nestjs-idempotency/redis';
import type { LimitsOptions, OperationRequest } from '../../../support/internals/core.js';
import {
  loadScripts,
  type LuaScripts,
  RedisIdempotencyStore,
} from '../../../support/internals/redis.js';
import { scriptTexts } from '../../../support/redis/scripts.js';
import { RedisProxy } from '../../../support/redis/proxy/redis-proxy.js';
import type { Expectations } from '../../../../lab/faults/expectations.js';
import type { DrivenTime } from '../../../support/clocks/driven-time.js';
import { Ledger } from './ledger.js';
import { openLink } from './open-link.js';
import { RemoteWorker } from './remote-worker.js';

export interface WorkerOptions extends LimitsOptions {
  /** Options of its connection, instead of those that the store chooses. */
  readonly connection?: RedisConnectionOptions;
}

export interface SceneOptions {
  /** The unit in which leases end. */
  readonly time: DrivenTime;
  /** Instead of those of the package. */
  readonly scripts?: LuaScripts | undefined;
}

/** Workers around one Redis, and the records of their operations and clients. */
export class Scene {
  readonly ledger = new Ledger();
  /** A connection without proxies. */
  readonly admin: Redis;
  private readonly workers: RemoteWorker[] = [];
  private readonly closing: (() => Promise<unknown>)[] = [];

  constructor(
    private readonly port: number,
    private readonly options: SceneOptions,
  ) {
    this.admin = new Redis(port, '127.0.0.1', { disconnectTimeout: 100 });
    // Some scenes are about a server that goes down.
    this.admin.on('error', () => undefined);
  }

  /** A further process, connected, and the server knows its scripts. */
  async worker({ connection = {}, ...options }: WorkerOptions = {}): Promise<RemoteWorker> {
    const { scripts = loadScripts() } = this.options;
    for (const [, { text }] of scriptTexts(scripts)) await this.admin.script('LOAD', text);
    const proxy = await RedisProxy.start(this.port, { scripts });
    const store = this.storeAt(proxy.url, connection);
    await store.open();
    this.closing.push(async () => {
      // The proxy first: over a silent one the closing handshake would get no reply.
      await proxy.stop();
      await store.close();
    });
    const worker = new RemoteWorker(store, proxy, this.ledger, {
      shutdownTimeout: 0,
      ...options,
    });
    this.workers.push(worker);
    return worker;
  }

  /** Where Redis keeps the record. */
  redisKey({ recordKey }: OperationRequest): string {
    return `idem:1:${recordKey}`;
  }

  /** The server's clock, in milliseconds. */
  async serverNow(): Promise<number> {
    const [seconds = 0, micros = 0] = (await this.admin.time()).map(Number);
    return seconds * 1_000 + Math.floor(micros / 1_000);
  }

  /** As if all processes had been paused for this long. */
  pass(ms: number): Promise<void> {
    return this.options.time.pass(ms);
  }

  /** Advances time by a third of the lease, until the heartbeat that is due then has its reply, or fails. */
  async passToHeartbeat(worker: RemoteWorker, { options }: OperationRequest): Promise<void> {
    const ended = new Promise<void>((resolve) => {
      worker.store.next('extend', (execute) => execute().finally(resolve));
    });
    await this.pass(Math.ceil(options.lease.duration / 3));
    await ended;
    await new Promise(setImmediate);
  }

  /** Promises broken so far; see {@link Ledger.objections}. */
  objections(tolerated: Partial<Expectations> = {}): readonly string[] {
    const events = this.workers.flatMap((worker) => worker.events);
    return this.ledger.objections(events, tolerated);
  }

  async stop(): Promise<void> {
    // Nothing is saved in the background any more.
    for (const { engine } of this.workers) await engine.drain();
    await Promise.all(this.closing.map((close) => close()));
    this.admin.disconnect();
  }

  private storeAt(url: string, connection: RedisConnectionOptions): IdempotencyStore {
    const options = { url, connection, onConnectionError: () => undefined };
    const { scripts = loadScripts() } = this.options;
    return new RedisIdempotencyStore({ connect: () => openLink(options), scripts });
  }
}
