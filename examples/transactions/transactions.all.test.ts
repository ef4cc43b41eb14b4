import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable, type INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  Idempotent,
  requireIdempotencyTransaction,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import type { Pool } from 'pg';
import { callingApp } from '../../test/support/nest/calling-app.js';
import { openPostgresPool } from '../../test/support/postgres/postgres-pool.js';
import { usePostgres } from '../../test/support/postgres/use-postgres.js';
import { START_HOOK_MS } from '../../test/support/servers/start-server.js';
import { MyUnitOfWork } from './custom-unit-of-work.js';
import { openPool } from './kysely-pool.js';
import { Mails } from './mails.js';
import { MyDatabase, type MyTransaction } from './my-database.js';
import { RefundsModule } from './refunds.js';

const server = usePostgres();
let url: string;
let observer: Pool;

beforeAll(async () => {
  url = await server.newDatabase();
  process.env.DATABASE_URL = url;
  await migrate({ url });
  observer = openPostgresPool(url);
  await observer.query(
    'CREATE TABLE refunds (id serial PRIMARY KEY, payment text NOT NULL, amount integer NOT NULL CHECK (amount > 0))',
  );
  await observer.query(
    'CREATE TABLE ledger (payment text NOT NULL, amount integer NOT NULL CHECK (amount > -1000))',
  );
}, START_HOOK_MS);
afterEach(() => observer.query('TRUNCATE refunds, ledger'));
afterAll(async () => {
  await observer.end();
  delete process.env.DATABASE_URL;
});

async function rowsOf(table: 'refunds' | 'ledger'): Promise<number[]> {
  const { rows } = await observer.query<{ amount: number }>(`SELECT amount FROM ${table}`);
  return rows.map(({ amount }) => amount);
}

describe('A refund', () => {
  let app: INestApplication;
  beforeAll(async () => {
    app = await NestFactory.create(RefundsModule, { logger: false, abortOnError: false });
    // There is no login here: all requests are those of one user.
    app.use((request: { user?: object }, _response: unknown, next: () => void) => {
      request.user = { id: 'alice' };
      next();
    });
    await app.listen(0, '127.0.0.1');
  }, START_HOOK_MS);
  afterAll(() => app.close());

  /** Retries a 503, as clients do: a busy machine may be too slow for the store's timeout. */
  async function post(path: string, key: string, amount: number): Promise<Response> {
    const response = await fetch(`${await app.getUrl()}/payments/7/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body: JSON.stringify({ amount }),
    });
    return response.status === 503 ? post(path, key, amount) : response;
  }

  it('commits the row of the handler, that of the service, and the record together', async () => {
    const key = randomUUID();
    const first = await post('refunds', key, 500);
    const retry = await post('refunds', key, 500);
    expect([first.status, retry.status]).toEqual([201, 201]);
    expect(await retry.text()).toBe(await first.text());
    expect([await rowsOf('refunds'), await rowsOf('ledger')]).toEqual([[500], [-500]]);
  });

  it('of which one row is rejected leaves none', async () => {
    expect((await post('refunds', randomUUID(), 1_000)).status).toBe(500);
    expect([await rowsOf('refunds'), await rowsOf('ledger')]).toEqual([[], []]);
  });

  it('sends its receipt once, after the commit, and none after a rollback', async () => {
    const { sent } = app.get(Mails);
    const key = randomUUID();
    await post('refunds/announced', key, 500);
    await post('refunds/announced', key, 500);
    expect((await post('refunds/announced', randomUUID(), 1_000)).status).toBe(500);
    expect([sent, await rowsOf('ledger')]).toEqual([['7'], [-500]]);
  });
});

@Injectable()
class Notes {
  @Idempotent({
    operation: 'notes.add',
    key: (amount: number) => String(amount),
    transaction: true,
  })
  async add(amount: number): Promise<number> {
    const transaction = requireIdempotencyTransaction<MyTransaction>();
    await transaction.rawQuery('INSERT INTO ledger (payment, amount) VALUES ($1, $2)', [
      '8',
      amount,
    ]);
    return amount;
  }
}

it('A unit of work of your own commits effect and record together, or neither', async () => {
  const pool = openPool();
  const options: Partial<IdempotencyModuleOptions> = {
    store: postgresStore({ url }),
    unitOfWork: new MyUnitOfWork(new MyDatabase(pool)),
  };
  const { nest } = await callingApp({ providers: [Notes] }, options);
  try {
    const notes = nest.get(Notes);
    expect([await notes.add(5), await notes.add(5)]).toEqual([5, 5]);
    await expect(notes.add(-5_000)).rejects.toThrow('ledger');
    expect(await rowsOf('ledger')).toEqual([5]);
  } finally {
    await nest.close();
    await pool.end();
  }
});
