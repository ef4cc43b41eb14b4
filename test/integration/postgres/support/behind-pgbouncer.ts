import { expect } from '@jest/globals';
import { IdempotencyService, type IdempotencyStore } from 'nestjs-idempotency';
import { migrate, postgresStore, type PostgresStoreOptions } from 'nestjs-idempotency/postgres';
import { afterTest } from '../../../support/jest/after-test.js';
import { callingApp } from '../../../support/nest/calling-app.js';
import { startPgBouncer, type PgBouncer } from '../../../support/postgres/pgbouncer-server.js';
import { userPool } from './fixture.js';

/** As many as a burst of first requests. */
const KEYS = 60;

export const durableEnough = 'postgres_not_durable';

/** A pooler in front of a database with the table. */
export async function bouncedDatabase(
  newDatabase: () => Promise<string>,
  settings?: Readonly<Record<string, string | number>>,
  program?: string,
): Promise<{ readonly direct: string; readonly bouncer: PgBouncer }> {
  const direct = await newDatabase();
  await migrate({ url: direct });
  const bouncer = await startPgBouncer(direct, settings, program);
  afterTest(() => bouncer.stop());
  return { direct, bouncer };
}

/** Starts an application. @returns what the start and the operations since have warned of. */
export async function startApp(store: IdempotencyStore) {
  const { nest, log } = await callingApp({}, { store });
  afterTest(() => nest.close());
  const codes = () => log.own.flatMap((line) => /\[(\w+)\]$/.exec(line)?.[1] ?? []);
  return { service: nest.get(IdempotencyService, { strict: false }), log, codes };
}

/** Requests at once, each key twice: each operation runs once, and its record is at the server. */
export async function expectBurstIsServed(
  service: IdempotencyService,
  direct: string,
): Promise<void> {
  const runs = new Map<string, number>();
  const call = (key: string) =>
    service.run(
      { operation: 'pay', key, scope: 'alice', duplicates: { mode: 'wait', timeout: 20_000 } },
      () => {
        runs.set(key, (runs.get(key) ?? 0) + 1);
        return 'paid';
      },
    );
  const keys = Array.from({ length: KEYS }, (_, i) => `order-${String(i)}-of-the-burst`);
  const replies = await Promise.all([...keys, ...keys].map(call));
  expect(new Set(replies)).toEqual(new Set(['paid']));
  expect([...runs.values()]).toEqual(keys.map(() => 1));
  const { rows } = await userPool(direct).query(
    `SELECT count(*)::integer AS kept FROM idempotency_records
     WHERE state = 'completed' AND octet_length(record_key) = 32`,
  );
  expect(rows).toEqual([{ kept: KEYS }]);
}

export function bouncedStore(bouncer: PgBouncer, options: Partial<PostgresStoreOptions> = {}) {
  return postgresStore({ url: bouncer.url, ...options } as PostgresStoreOptions);
}
