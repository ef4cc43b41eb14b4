import { randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { drizzle } from 'drizzle-orm/node-postgres';
import { IdempotencyModule } from 'nestjs-idempotency';
import { drizzleUnitOfWork } from 'nestjs-idempotency/drizzle';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import type { Pool } from 'pg';
import {
  type AdapterName,
  adapterNames,
} from '../../test/integration/transactions/adapters/index.js';
import { callingApp, type CallingApp } from '../../test/support/nest/calling-app.js';
import { openPostgresPool } from '../../test/support/postgres/postgres-pool.js';
import { usePostgres } from '../../test/support/postgres/use-postgres.js';
import { TalkingProcess } from '../../test/support/processes/talking-process.js';
import { START_HOOK_MS } from '../../test/support/servers/start-server.js';
import { useServer } from '../../test/support/servers/use-server.js';
import { until } from '../../test/support/waiting/until.js';
import { BearerGuard, post } from '../support/http-client.js';
import { AnyOrders, MODULE_OPTIONS, openAnyOrders } from './any-orders.js';
import { CREATE_OUTBOX, Outbox, OutboxTransactionRequiredError } from './nestjs-outbox.js';
import { OrdersController } from './orders.controller.js';
import { schema } from './schema.js';

const GATE = 1;

const server = usePostgres();
let url: string;
let observer: Pool;

beforeAll(async () => {
  url = await server.newDatabase();
  await migrate({ url });
  observer = openPostgresPool(url);
  await observer.query(CREATE_OUTBOX);
  await observer.query(`
    CREATE TABLE orders (id text PRIMARY KEY, amount integer NOT NULL CHECK (amount > 0));
    CREATE TABLE effects (id text PRIMARY KEY);
    CREATE FUNCTION pass_gate() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_advisory_xact_lock_shared(${GATE}); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER gate AFTER INSERT ON nest_outbox.messages DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION pass_gate()`);
}, START_HOOK_MS);
afterAll(() => observer.end());

const rows = async (table: string, id: string, column = 'id') =>
  (await observer.query(`SELECT FROM ${table} WHERE ${column} = $1`, [id])).rowCount;

/** How many rows there are of an order, and of its events. */
async function committed(id: string, table = 'effects') {
  return {
    orders: await rows(table, id),
    events: await rows('nest_outbox.messages', id, `payload ->> 'id'`),
  };
}

const NONE = { orders: 0, events: 0 };
const ALL = { orders: 1, events: 1 };

describe('POST /orders', () => {
  @Module({})
  class AppModule {}

  const pool = useServer(
    () => openPostgresPool(url),
    (opened) => opened.end(),
  );
  const app = useServer(async () => {
    const unitOfWork = drizzleUnitOfWork(pool, (client) => drizzle(client, { schema }));
    const imports = [
      IdempotencyModule.forRoot({ store: postgresStore({ url }), unitOfWork, ...MODULE_OPTIONS }),
    ];
    const module = { module: AppModule, imports, controllers: [OrdersController] };
    const nest = await NestFactory.create(
      { ...module, providers: [Outbox] },
      { logger: false, abortOnError: false },
    );
    nest.useGlobalGuards(new BearerGuard());
    await nest.listen(0, '127.0.0.1');
    return nest;
  });
  const place = (key: string, json: object) => {
    const { port } = app.getHttpServer().address() as AddressInfo;
    return post(port, '/orders', { key, as: { id: 'alice' }, json });
  };

  it('commits order, event and record, wakes the relay, and a retry adds no second event', async () => {
    const [key, id] = [randomUUID(), randomUUID()];
    const first = await place(key, { id, amount: 500 });
    expect(first).toMatchObject({ status: 201, replayed: false, body: { placed: id } });
    const retry = await place(key, { id, amount: 500 });
    expect(retry).toMatchObject({ status: 201, replayed: true, body: first.body });
    expect(await committed(id, 'orders')).toEqual(ALL);
    expect(app.get(Outbox).notified).toBe(1);
  });

  it('commits nothing if the order is refused, and the same key may try again', async () => {
    const [key, id] = [randomUUID(), randomUUID()];
    expect(await place(key, { id, amount: -1 })).toMatchObject({ status: 500 });
    expect(await committed(id, 'orders')).toEqual(NONE);
    expect(await place(key, { id, amount: -1 })).toMatchObject({ status: 500, replayed: false });
  });

  it('is refused its database in the place of the transaction', async () => {
    const added = new Outbox().add(drizzle(pool), { id: 'x', topic: 'x', payload: {} });
    await expect(added).rejects.toThrow(OutboxTransactionRequiredError);
    const bare = new Outbox().add({ query: () => undefined }, { id: 'x', topic: 'x', payload: {} });
    await expect(bare).rejects.toThrow(OutboxTransactionRequiredError);
  });
});

/** The outbox has neither an executor for the transactions of the others, nor one for what they are made of. */
const WITHOUT_OUTBOX = new Set<AdapterName>(['mikroOrm', 'sequelize']);
const LIBRARIES = adapterNames.filter((name) => !WITHOUT_OUTBOX.has(name));

describe.each(LIBRARIES)('An order, its event and its record, through %s,', (name) => {
  let app: CallingApp;
  let close: () => Promise<unknown>;
  let beforeRecord: () => Promise<unknown> = () => Promise.resolve();
  let child: TalkingProcess<{ stopped: string }> | undefined;

  beforeAll(async () => {
    const opened = await openAnyOrders(name, url, () => beforeRecord());
    close = opened.close;
    app = await callingApp(
      { providers: opened.providers },
      { store: postgresStore({ url }), unitOfWork: opened.unitOfWork, ...MODULE_OPTIONS },
    );
  }, START_HOOK_MS);
  afterAll(async () => {
    await child?.kill();
    await app.nest.close();
    await close();
  });

  const place = (id: string) => app.nest.get(AnyOrders).place(id);

  function launch(id: string, stops: boolean) {
    const script = new URL('nestjs-outbox.process.ts', import.meta.url);
    return (child = new TalkingProcess(script, { url, name, id, stops }));
  }

  it('are committed together, and a retry replays', async () => {
    const id = randomUUID();
    expect(await place(id)).toEqual({ placed: id, attempt: 1 });
    expect(await committed(id)).toEqual(ALL);
    expect(await place(id)).toEqual({ placed: id, attempt: 1 });
    expect(await committed(id)).toEqual(ALL);
  });

  it('are rolled back together by a throw, and the next attempt commits them', async () => {
    const id = randomUUID();
    beforeRecord = () => Promise.reject(new Error('planned'));
    await expect(place(id)).rejects.toThrow('planned');
    expect(await committed(id)).toEqual(NONE);
    beforeRecord = () => Promise.resolve();
    expect(await place(id)).toEqual({ placed: id, attempt: 2 });
    expect(await committed(id)).toEqual(ALL);
  });

  it('are all missing if the process is killed before the record, and a retry commits them once', async () => {
    const id = randomUUID();
    const killed = launch(id, true);
    expect(await killed.next()).toEqual({ stopped: id });
    await killed.kill();
    expect(await committed(id)).toEqual(NONE);
    expect(await place(id)).toEqual({ placed: id, attempt: 2 });
    expect(await committed(id)).toEqual(ALL);
    expect(await place(id)).toEqual({ placed: id, attempt: 2 });
  }, 120_000);

  it('are all there if the process is killed while the server commits, and a retry replays', async () => {
    const id = randomUUID();
    const gate = await observer.connect();
    try {
      await gate.query(`SELECT pg_advisory_lock(${GATE})`);
      const killed = launch(id, false);
      const isCommitting = until(async () => {
        const { rowCount } = await observer.query(
          `SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`,
        );
        return rowCount === 1;
      }, 60_000);
      // It says nothing, unless it fails.
      await Promise.race([isCommitting, killed.next()]);
      await killed.kill();
      expect(await committed(id)).toEqual(NONE);
    } finally {
      await gate.query(`SELECT pg_advisory_unlock(${GATE})`);
      gate.release();
    }
    expect(await place(id)).toEqual({ placed: id, attempt: 1 });
    expect(await committed(id)).toEqual(ALL);
  }, 120_000);
});
