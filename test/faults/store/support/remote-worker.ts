import type { IdempotencyStore } from 'nestjs-idempotency';
import type { LimitsOptions } from '../../../support/internals/core.js';
import type { RedisProxy } from '../../../support/redis/proxy/redis-proxy.js';
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
