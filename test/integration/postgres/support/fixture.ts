import type { Pool } from 'pg';
import {
  postgresStore,
  type OwnPoolOptions,
  type PostgresIdempotencyStore,
} from 'nestjs-idempotency/postgres';
import { afterTest } from '../../../support/jest/after-test.js';
import {
  openPostgresPool,
  type TestedPoolConfig,
} from '../../../support/postgres/postgres-pool.js';

export { closeAfterTest } from '../../../support/jest/after-test.js';

/** A store with its own pool. */
export function ownStore(url: string, options: OwnPoolOptions = {}): PostgresIdempotencyStore {
  const store = postgresStore({ url, ...options });
  afterTest(() => store.close());
  return store;
}

/** A pool like that of an application. */
export function userPool(url: string, config: TestedPoolConfig = {}): Pool {
  const pool = openPostgresPool(url, config);
  afterTest(() => pool.end());
  return pool;
}

/** The same URL with another port. */
export function throughPort(url: string, port: number): string {
  const address = new URL(url);
  address.port = String(port);
  return address.href;
}
