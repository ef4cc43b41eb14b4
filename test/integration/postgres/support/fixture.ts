import { afterEach } from '@jest/globals';
import type { Pool } from 'pg';
import {
  postgresStore,
  type OwnPoolOptions,
  type PostgresIdempotencyStore,
} from 'nestjs-idempotency/postgres';
import { openPostgresPool, type TestedPoolConfig } from '../../../support/postgres-pool.js';

const opened: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close();
});

/** Undone after the test, the last one first. */
export function closeAfterTest<T extends { stop(): Promise<void> }>(resource: T): T {
  opened.push(() => resource.stop());
  return resource;
}

/** A store with a pool of its own. */
export function ownStore(url: string, options: OwnPoolOptions = {}): PostgresIdempotencyStore {
  const store = postgresStore({ url, ...options });
  opened.push(() => store.close());
  return store;
}

/** A pool as an application would have it. */
export function userPool(url: string, config: TestedPoolConfig = {}): Pool {
  const pool = openPostgresPool(url, config);
  opened.push(() => pool.end());
  return pool;
}

/** The same address through another port. */
export function throughPort(url: string, port: number): string {
  const address = new URL(url);
  address.port = String(port);
  return address.href;
}
