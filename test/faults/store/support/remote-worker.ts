import type { EngineOptions, IdempotencyStore } from 'nestjs-idempotency';
import type { RedisProxy } from '../../../support/redis-proxy.js';
import type { Ledger } from './ledger.js';
import { LedgerWorker } from './ledger-worker.js';

/** One with a connection of its own to Redis, through a proxy of its own. */
export class RemoteWorker extends LedgerWorker {
  constructor(
    store: IdempotencyStore,
    readonly proxy: RedisProxy,
    ledger: Ledger,
    options: EngineOptions = {},
  ) {
    super(store, ledger, options);
  }
}
