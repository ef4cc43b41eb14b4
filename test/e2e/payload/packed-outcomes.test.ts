import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Body, Controller, HttpCode, HttpException, Post } from '@nestjs/common';
import { Pool } from 'pg';
import {
  IdempotencyEvents,
  IdempotencyService,
  Idempotent,
  staticKeys,
  type IdempotencyEvent,
  type IdempotencyModuleOptions,
  type IdempotencyStore,
} from 'nestjs-idempotency';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { ALICE } from '../../support/http/callers.guard.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { useRedis, useRedisClient } from '../../support/redis/use-redis.js';

const RECIPIENTS = 400;

const OLD = randomBytes(32);
const NEW = randomBytes(32);
const onlyOld = staticKeys({ current: 'old', keys: { old: OLD } });
const oldAndNew = staticKeys({ current: 'old', keys: { old: OLD, new: NEW } });
const newAndOld = staticKeys({ current: 'new', keys: { old: OLD, new: NEW } });

type Options = Pick<IdempotencyModuleOptions, 'outcome' | 'secrets' | 'unitOfWork'>;

const redis = useRedis();
const client = useRedisClient(redis);
const postgres = usePostgres();
let url: string;
let pool: Pool;
beforeAll(async () => {
  url = await postgres.newDatabase();
  await migrate({ url });
  pool = new Pool({ connectionString: url, max: 4 });
});
afterAll(() => pool.end());

const newKey = () => randomBytes(8).toString('hex');
const nameOf = (key: string) => `Customer-${key.split('').reverse().join('')}`;

/** What the store has, as text. */
async function contentOfRedis(): Promise<string> {
  const keys = await client.keys('*');
  const values = await Promise.all(keys.map((key) => client.getBuffer(key)));
  return (
    keys.join('\n') + Buffer.concat(values.map((value) => value ?? Buffer.of())).toString('latin1')
  );
}

async function contentOfPostgres(): Promise<string> {
  const { rows } = await pool.query<{ row: string }>(
    `SELECT concat_ws(' ', r::text, encode(outcome_header, 'escape'), encode(outcome_body, 'escape')) AS row
     FROM idempotency_records r`,
  );
  return rows.map(({ row }) => row).join('\n');
}

const STORES: readonly [string, () => IdempotencyStore, () => Promise<string>][] = [
  ['Redis', () => redisStore({ url: redis.url }), contentOfRedis],
  ['PostgreSQL', () => postgresStore({ url, deleteExpired: false }), contentOfPostgres],
];

const apps: TestApp[] = [];
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
});

/** Of all processes together. */
let executions = 0;

interface Customer {
  readonly name: string;
}

function newController(isTransactional: boolean) {
  @Controller()
  @Idempotent()
  class Invoices {
    @Post('invoices')
    create(@Body() { name }: Customer) {
      executions += 1;
      return Array.from({ length: RECIPIENTS }, (_, id) => ({ id, name }));
    }

    @Post('small')
    @HttpCode(200)
    small(@Body() { name }: Customer) {
      executions += 1;
      return name;
    }

    @Post('rejected')
    reject(@Body() { name }: Customer) {
      executions += 1;
      throw new HttpException({ reason: name }, 422);
    }

    @Post('transactional')
    @Idempotent({ transaction: isTransactional })
    transactional(@Body() { name }: Customer) {
      executions += 1;
      return { name };
    }
  }
  return Invoices;
}

async function start(store: IdempotencyStore, options: Options) {
  const app = await startApp({
    platform: 'express',
    controllers: [newController(options.unitOfWork !== undefined)],
    store,
    options,
    guard: ALICE,
  });
  apps.push(app);
  const events: IdempotencyEvent[] = [];
  app.nest.get(IdempotencyEvents, { strict: false }).subscribe((event) => void events.push(event));
  /** The customer's name is that of the key: it is in the response, and nowhere else. */
  const send = async (path: string, key: string, name = nameOf(key)) => {
    const response = await fetch(`http://127.0.0.1:${app.port}/${path}`, {
      method: 'POST',
      headers: {
        'idempotency-key': key,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ name }),
    });
    return {
      status: response.status,
      isReplayed: response.headers.get('idempotent-replayed') === 'true',
      retryAfter: response.headers.get('retry-after'),
      body: await response.text(),
    };
  };
  return { app, send, events };
}

const FORMS: readonly [string, Options][] = [
  ['encrypted', { secrets: onlyOld }],
  ['compressed', { outcome: { compression: true } }],
  [
    'compressed by brotli, then encrypted',
    { secrets: onlyOld, outcome: { compression: { algorithm: 'brotli' } } },
  ],
];

describe.each(STORES)('On %s,', (name, newStore, content) => {
  describe.each(FORMS)('an outcome that is stored %s', (_, form) => {
    it.each(['invoices', 'small', 'rejected', ...(name === 'PostgreSQL' ? ['transactional'] : [])])(
      'of /%s is replayed byte for byte, in another process and without the option, too',
      async (path) => {
        const options = {
          ...form,
          ...(name === 'PostgreSQL' && { unitOfWork: pgUnitOfWork(pool) }),
        };
        const one = await start(newStore(), options);
        const key = newKey();
        const before = executions;
        const first = await one.send(path, key);
        expect(first.body).toContain(nameOf(key));
        const replay = { ...first, isReplayed: true };
        expect(await one.send(path, key)).toEqual(replay);
        const other = await start(newStore(), { ...options, outcome: { encryption: false } });
        expect(await other.send(path, key)).toEqual(replay);
        expect(executions - before).toBe(1);
        if (form.secrets !== undefined) expect((await content()).includes(nameOf(key))).toBe(false);
      },
    );

    it('of a call is replayed, too', async () => {
      const { app } = await start(newStore(), form);
      const calls = app.nest.get(IdempotencyService, { strict: false });
      const call = { operation: 'invoice', key: newKey(), scope: ['alice'] };
      const value = { names: Array.from({ length: RECIPIENTS }, () => nameOf(call.key)) };
      expect(await calls.run(call, () => value)).toEqual(value);
      expect(await calls.run(call, () => 'again')).toEqual(value);
      if (form.secrets !== undefined)
        expect((await content()).includes(nameOf(call.key))).toBe(false);
    });
  });

  it('a class or a method says otherwise, and what it stores is in clear', async () => {
    const { app } = await start(newStore(), { secrets: onlyOld });
    const calls = app.nest.get(IdempotencyService, { strict: false });
    const outcome = { encryption: false };
    const key = newKey();
    await calls.run({ operation: 'open', key, scope: ['alice'], outcome }, () => `open ${key}`);
    expect((await content()).includes(`open ${key}`)).toBe(true);
  });

  it('keys rotate: readers first, then the one that writes', async () => {
    const [reader, writer] = [
      await start(newStore(), { secrets: oldAndNew }),
      await start(newStore(), { secrets: newAndOld }),
    ];
    const key = newKey();
    for (const [one, other, path] of [
      [reader, writer, 'invoices'],
      [writer, reader, 'small'],
    ] as const) {
      const first = await one.send(path, key);
      expect(await other.send(path, key)).toEqual({ ...first, isReplayed: true });
    }
  });

  it.each([
    ['without the key', { secrets: onlyOld }],
    ['without any', {}],
  ])('a process %s rejects the retry with 503, and does not run', async (_, options) => {
    const writer = await start(newStore(), { secrets: newAndOld });
    const late = await start(newStore(), options);
    const key = newKey();
    const first = await writer.send('small', key);
    const before = executions;
    const { status, retryAfter, body } = await late.send('small', key);
    expect({ status, retryAfter }).toEqual({ status: 503, retryAfter: '1' });
    expect(JSON.parse(body)).toMatchObject({
      code: 'idempotency_outcome_unavailable',
      retryable: true,
    });
    expect(body).not.toContain(key);
    expect(executions).toBe(before);
    expect(late.events).toContainEqual(
      expect.objectContaining({ type: 'outcome_unreadable', reason: 'key' }),
    );
    expect(await writer.send('small', key)).toEqual({ ...first, isReplayed: true });
  });
});

/** Without the note of the service. */
async function recordsOf(keyPrefix: string): Promise<string[]> {
  const keys = await client.keys(`${keyPrefix}:1:*`);
  return keys.filter((key) => key.length === keyPrefix.length + ':1:'.length + 43);
}

it('An outcome that was put in the place of another one is an error, and nothing runs', async () => {
  const { send, events } = await start(redisStore({ url: redis.url, keyPrefix: 'moved' }), {
    secrets: onlyOld,
  });
  await send('small', 'k1', 'equal');
  const [from = ''] = await recordsOf('moved');
  await send('small', 'k2', 'equal');
  const [to = ''] = (await recordsOf('moved')).filter((name) => name !== from);
  await client.copy(from, to, 'REPLACE');
  const before = executions;
  const answers = [await send('small', 'k1', 'equal'), await send('small', 'k2', 'equal')];
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 500]);
  const { body, retryAfter } = answers.find(({ status }) => status === 500)!;
  expect(JSON.parse(body)).toMatchObject({
    code: 'idempotency_outcome_unreadable',
    retryable: false,
  });
  expect(retryAfter).toBeNull();
  expect(executions).toBe(before);
  expect(events).toContainEqual(
    expect.objectContaining({ type: 'outcome_unreadable', reason: 'integrity' }),
  );
});

it('A compressed response of 64 KB takes a third of the memory of Redis', async () => {
  const rows = Array.from({ length: 700 }, (_, id) => ({
    id,
    customer: `customer ${id % 91}`,
    amount: id * 37,
    currency: 'EUR',
    status: 'open',
  }));
  const value = JSON.stringify(rows);
  expect(value.length).toBeGreaterThan(48_000);
  const used = async (keyPrefix: string, outcome: NonNullable<Options['outcome']>) => {
    const { app } = await start(redisStore({ url: redis.url, keyPrefix }), { outcome });
    const calls = app.nest.get(IdempotencyService, { strict: false });
    await calls.run({ operation: 'report', key: 'k', scope: ['alice'] }, () => rows);
    const sizes = await Promise.all(
      (await client.keys(`${keyPrefix}:*`)).map((key) => client.memory('USAGE', key)),
    );
    return Math.max(...sizes.map(Number));
  };
  expect(
    (await used('packed', { compression: true })) / (await used('plain', {})),
  ).toBeLessThanOrEqual(0.35);
});
