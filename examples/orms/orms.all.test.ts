import { randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { Module, type DynamicModule, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { migrate } from 'nestjs-idempotency/postgres';
import type { Pool } from 'pg';
import { openPostgresPool } from '../../test/support/postgres/postgres-pool.js';
import { usePostgres } from '../../test/support/postgres/use-postgres.js';
import { useServer } from '../../test/support/servers/use-server.js';
import { START_HOOK_MS } from '../../test/support/servers/start-server.js';
import { BearerGuard, post } from '../support/http-client.js';
import * as drizzle from './drizzle.js';
import * as knex from './knex.js';
import * as kysely from './kysely.js';
import * as mikroOrm from './mikro-orm.js';
import * as prisma from './prisma.js';
import * as sequelize from './sequelize.js';
import * as typeorm from './typeorm.js';

interface Example {
  readonly idempotency: DynamicModule;
  readonly RefundsController: Type;
}

const examples: Readonly<Record<string, Example>> = {
  ...{ prisma, typeorm, drizzle, kysely, knex },
  ...{ mikroOrm, sequelize },
};

const server = usePostgres();
let observer: Pool;

beforeAll(async () => {
  const url = await server.newDatabase();
  process.env.DATABASE_URL = url;
  await migrate({ url });
  observer = openPostgresPool(url);
  await observer.query(
    'CREATE TABLE refunds (id serial PRIMARY KEY, payment text NOT NULL, amount integer NOT NULL)',
  );
}, START_HOOK_MS);
afterEach(() => observer.query('TRUNCATE refunds'));
afterAll(async () => {
  await observer.end();
  delete process.env.DATABASE_URL;
});

@Module({})
class AppModule {}

async function start({ idempotency, RefundsController }: Example) {
  const module = { module: AppModule, imports: [idempotency], controllers: [RefundsController] };
  const app = await NestFactory.create(module, { logger: false, abortOnError: false });
  app.useGlobalGuards(new BearerGuard());
  await app.listen(0, '127.0.0.1');
  return app;
}

async function amounts(): Promise<number[]> {
  const { rows } = await observer.query<{ amount: number }>('SELECT amount FROM refunds');
  return rows.map(({ amount }) => amount);
}

describe.each(Object.entries(examples))('The example for %s', (_, example) => {
  const app = useServer(() => start(example));
  const refund = (key: string, json: object) => {
    const { port } = app.getHttpServer().address() as AddressInfo;
    return post(port, '/refunds', { key, as: { id: 'alice' }, json });
  };

  it('commits row and record together, and replays the response', async () => {
    const key = randomUUID();
    const first = await refund(key, { payment: 'p1', amount: 500 });
    expect(first).toMatchObject({ status: 201, body: { id: expect.any(Number), amount: 500 } });
    const retry = await refund(key, { payment: 'p1', amount: 500 });
    expect(retry).toMatchObject({ status: 201, replayed: true, body: first.body });
    expect(await amounts()).toEqual([500]);
  });

  it('leaves neither where the row is rejected, and lets the same key try again', async () => {
    await observer.query('ALTER TABLE refunds ADD CONSTRAINT small CHECK (amount < 100)');
    const key = randomUUID();
    expect(await refund(key, { payment: 'p2', amount: 500 })).toMatchObject({ status: 500 });
    await observer.query('ALTER TABLE refunds DROP CONSTRAINT small');
    expect(await amounts()).toEqual([]);
    const retry = await refund(key, { payment: 'p2', amount: 500 });
    expect(retry).toMatchObject({ status: 201, replayed: false });
    expect(await amounts()).toEqual([500]);
  });
});
