import type { IdempotencyStore, LimitsOptions } from 'nestjs-idempotency';
import type { RedisProxy } from '../../../support/redis-proxy.js';
import type { Ledger } from './ledger.js';
import { LedgerWorker } from './ledger-worker.js';

/** A worker with its own connection to Redis, through its own proxy. */
export class RemoteWorker extends LedgerWorker {
  constructor(
    store: IdempotencyStore,
    readonly proxy: RedisProxy,
    ledger: Ledger,
    limits: LimitsOptions = {},
  ) {
    super(store, ledger, limits);
  }
}
