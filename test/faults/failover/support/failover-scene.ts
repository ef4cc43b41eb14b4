import {
  redisStore,
  type RedisConnectionOptions,
  type RedisIdempotencyStore,
  type RedisStoreOptions,
} from 'nestjs-idempotency/redis';
import type { LimitsOptions } from '../../../support/internals/core.js';
import type { SentinelConnection } from '../../../support/redis/redis-sentinel.js';
import { Ledger } from '../../store/support/ledger.js';
import { LedgerWorker } from '../../store/support/ledger-worker.js';

/** Workers around several servers, and the records of their operations and clients. */
export class FailoverScene {
  readonly ledger = new Ledger();
  private readonly workers: LedgerWorker[] = [];
  private readonly stores: RedisIdempotencyStore[] = [];

  /** A further process that asks the Sentinels, connected. */
  sentinelWorker(
    group: { readonly connection: SentinelConnection },
    connection: RedisConnectionOptions = {},
  ): Promise<LedgerWorker> {
    return this.worker({
      connection: { ...group.connection, ...connection },
      onConnectionError: () => undefined,
    });
  }

  /** A further process, connected. */
  worker(options: RedisStoreOptions, limits: LimitsOptions = {}): Promise<LedgerWorker> {
    return this.workerOn(redisStore(options), limits);
  }

  /** The same with a store that was made elsewhere. */
  async workerOn(store: RedisIdempotencyStore, limits: LimitsOptions = {}): Promise<LedgerWorker> {
    this.stores.push(store);
    await store.open();
    const worker = new LedgerWorker(store, this.ledger, { shutdownTimeout: 0, ...limits });
    this.workers.push(worker);
    return worker;
  }

  /** Promises broken so far; each repeated execution has to be reported. */
  objections(): readonly string[] {
    const events = this.workers.flatMap((worker) => worker.events);
    return this.ledger.objections(events, { extraExecutions: 'reported to either' });
  }

  async stop(): Promise<void> {
    // Nothing is saved in the background any more.
    for (const { engine } of this.workers) await engine.drain();
    for (const store of this.stores) await store.close();
  }
}
