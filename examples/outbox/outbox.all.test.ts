import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import type { Pool } from 'pg';
import { Idempotent } from 'nestjs-idempotency';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import { until } from '../../test/support/waiting/until.js';
import { openPostgresPool } from '../../test/support/postgres/postgres-pool.js';
import { typescriptNodeOptions } from '../../test/support/typescript/node-options.js';
import { usePostgres } from '../../test/support/postgres/use-postgres.js';
import { callingApp, type CallingApp } from '../../test/support/nest/calling-app.js';
import { Orders } from './orders.js';
import { OutboxRelay, type OutboxMessage, type Publish } from './outbox-relay.js';
import { CREATE_OUTBOX } from './outbox-table.js';
import { MODULE_OPTIONS, type ProcessSettings } from './process-settings.js';

/** Another service, which consumes the messages. */
@Injectable()
class Invoices {
  readonly created: unknown[] = [];

  @Idempotent({ operation: 'invoices.create', key: ({ id }: OutboxMessage) => id })
  async create({ payload }: OutboxMessage): Promise<void> {
    this.created.push(payload);
    return Promise.resolve();
  }
}

const folder = mkdtempSync(join(tmpdir(), 'idempotency-outbox-'));
const broker = join(folder, 'broker');
const server = usePostgres();
let url: string;
let pool: Pool;
let app: CallingApp;
let children: ChildProcess[] = [];

beforeAll(async () => {
  url = await server.newDatabase();
  await migrate({ url });
  pool = openPostgresPool(url);
  await pool.query(CREATE_OUTBOX);
  await pool.query('CREATE TABLE orders (id text PRIMARY KEY, amount integer NOT NULL)');
  app = await callingApp(
    { providers: [Orders, Invoices] },
    { store: postgresStore({ url }), unitOfWork: pgUnitOfWork(pool), ...MODULE_OPTIONS },
  );
}, 60_000);
afterAll(async () => {
  await app.nest.close();
  await pool.end();
  rmSync(folder, { recursive: true });
});
beforeEach(() => {
  writeFileSync(broker, '');
  app.nest.get(Invoices).created.length = 0;
});
afterEach(async () => {
  await Promise.all(children.map(kill));
  children = [];
});

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

/** A process that runs outbox.process.ts. */
function launch(settings: Pick<ProcessSettings, 'order' | 'stopsAt'>): ChildProcess {
  const script = fileURLToPath(new URL('outbox.process.ts', import.meta.url));
  const child = spawn(process.execPath, [...typescriptNodeOptions, script], {
    env: {
      ...process.env,
      NODE_OPTIONS: '',
      OUTBOX_TEST: JSON.stringify({ url, broker, ...settings }),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  return child;
}

const newOrder = () => ({ id: randomUUID(), amount: 4999 });
const place = (order: { id: string; amount: number }) => app.nest.get(Orders).place(order);
const published = () =>
  readFileSync(broker, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as OutboxMessage);

const publish: Publish = async (message) => {
  appendFileSync(broker, `${JSON.stringify(message)}\n`);
  return Promise.resolve();
};

/** Publishes the rest of the outbox, and passes all published messages to their consumer. */
async function relayAndConsume(): Promise<void> {
  const relay = new OutboxRelay(pool, publish);
  // The rows of a killed process are unlocked when the server notices its end.
  await until(async () => (await relay.relay()) === 0 && (await rows('outbox')) === 0);
  for (const message of published()) await app.nest.get(Invoices).create(message);
}

async function rows(table: 'outbox' | 'orders', where = 'true'): Promise<number> {
  const counted = await pool.query<{ count: string }>(
    `SELECT count(*) FROM ${table} WHERE ${where}`,
  );
  return Number(counted.rows[0]!.count);
}

const placedTimes = ({ id }: { id: string }) => rows('orders', `id = '${id}'`);

describe('an order, its outbox message, and their record', () => {
  it('are committed together, once, and the message is published', async () => {
    const order = newOrder();
    expect(await place(order)).toEqual({ placed: order.id });
    expect(await place(order)).toEqual({ placed: order.id });
    expect([await placedTimes(order), await rows('outbox')]).toEqual([1, 1]);
    await relayAndConsume();
    expect(published()).toMatchObject([{ topic: 'orders.placed', payload: order }]);
    expect(published()[0]!.id).toMatch(/^[\w-]{43}$/);
    expect(app.nest.get(Invoices).created).toEqual([order]);
  });

  it('are all missing when the process is killed before the commit, and the next call places the order', async () => {
    const order = newOrder();
    const gate = await pool.connect();
    await gate.query('BEGIN; LOCK TABLE outbox IN SHARE ROW EXCLUSIVE MODE');
    const child = launch({ order, stopsAt: 'never' });
    await until(async () => {
      const { rowCount } = await pool.query('SELECT FROM pg_locks WHERE NOT granted');
      return rowCount === 1;
    }, 20_000);
    await kill(child);
    await gate.query('ROLLBACK');
    gate.release();
    expect([await placedTimes(order), await rows('outbox')]).toEqual([0, 0]);

    expect(await place(order)).toEqual({ placed: order.id });
    expect([await placedTimes(order), await rows('outbox')]).toEqual([1, 1]);
    await relayAndConsume();
    expect(published()).toMatchObject([{ payload: order }]);
  }, 60_000);
});

describe('a message whose relay is killed', () => {
  it.each([
    ['before publishing', 1],
    ['after publishing', 2],
  ] as const)(
    '%s is published %i times in all, always as the same one, and handled once',
    async (stopsAt, times) => {
      const order = newOrder();
      const child = launch({ order, stopsAt });
      await once(child.stdout!, 'data');
      expect(await placedTimes(order)).toBe(1);
      // Locked by the running process: no other one publishes it meanwhile.
      expect(await new OutboxRelay(pool, publish).relay()).toBe(0);
      await kill(child);

      await relayAndConsume();
      expect(published()).toHaveLength(times);
      expect(new Set(published().map(({ id }) => id)).size).toBe(1);
      expect(app.nest.get(Invoices).created).toEqual([order]);
      expect(await place(order)).toEqual({ placed: order.id });
      expect([await placedTimes(order), await rows('outbox')]).toEqual([1, 0]);
    },
    60_000,
  );
});

describe('a relay', () => {
  it('whose connection is cut fails, keeps its process alive, and loses nothing', async () => {
    const order = newOrder();
    await place(order);
    const cut = new OutboxRelay(pool, async (message) => {
      await publish(message);
      const open = `FROM pg_stat_activity WHERE state = 'idle in transaction'`;
      const { rowCount } = await pool.query(`SELECT pg_terminate_backend(pid) ${open}`);
      expect(rowCount).toBe(1);
      // No query is running, so only a listener notices the cut.
      await until(async () => (await pool.query(`SELECT ${open}`)).rowCount === 0);
    });
    await expect(cut.relay()).rejects.toThrow();
    await relayAndConsume();
    expect(published()).toHaveLength(2);
    expect(app.nest.get(Invoices).created).toEqual([order]);
  });

  it('publishes again what follows a message that the broker rejected', async () => {
    const orders = [newOrder(), newOrder(), newOrder()];
    for (const order of orders) await place(order);
    let rejections = 1;
    const relay = new OutboxRelay(pool, async (message) => {
      if (published().length === 1 && rejections-- > 0) {
        throw new Error('planned: rejected');
      }
      return publish(message);
    });
    await expect(relay.relay()).rejects.toThrow('planned: rejected');
    expect(await relay.relay(2)).toBe(2);
    expect(await relay.relay(2)).toBe(1);
    await relayAndConsume();
    expect(published().map(({ payload }) => payload)).toEqual([orders[0], ...orders]);
    expect(app.nest.get(Invoices).created).toEqual(orders);
  });
});
