import { afterAll, describe, it } from '@jest/globals';
import { drizzle } from 'drizzle-orm/postgres-js';
import { fromDrizzle } from 'nestjs-idempotency/drizzle';
import type { PostgresExecutor } from 'nestjs-idempotency/postgres';
import { describeStoreConformance } from 'nestjs-idempotency/testing/store';
import postgres from 'postgres';
import { PostgresHarness } from '../../conformance/postgres-under-test.js';
import { embeddedPostgres } from '../../support/postgres/postgres-servers.js';
import { adapterNames, adapterOf } from './adapters/index.js';

interface Lent {
  readonly executor: PostgresExecutor;
  close(): Promise<unknown>;
}

type Open = (url: string, connections: number) => Promise<Lent>;

const EXECUTORS: readonly [string, Open][] = [
  ...adapterNames.map((name): [string, Open] => [
    name,
    (url, connections) => adapterOf(name).open(url, connections),
  ]),
  [
    'drizzle on postgres.js',
    async (url, max) => {
      const sql = postgres(url, { max, onnotice: () => undefined });
      return { executor: fromDrizzle(drizzle(sql)), close: () => sql.end() };
    },
  ],
];

const harnesses = EXECUTORS.map(
  ([name, open]) =>
    new PostgresHarness({ ...embeddedPostgres, name }, undefined, (url) => open(url, 5)),
);
for (const { underTest } of harnesses) describeStoreConformance({ describe, it }, underTest);
afterAll(() => Promise.all(harnesses.map((harness) => harness.close())));
