import { randomUUID } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { inspect } from 'node:util';
import type { INestApplication } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { IdempotencyService, Idempotent, type Recover } from 'nestjs-idempotency';
import type { Pool } from 'pg';
import { callingApp, rejection, type CallingApp } from '../../../test/support/nest/calling-app.js';
import { openPostgresPool } from '../../../test/support/postgres/postgres-pool.js';
import { usePostgres } from '../../../test/support/postgres/use-postgres.js';
import { useRedis, useRedisClient } from '../../../test/support/redis/use-redis.js';
import { mistakenPayments, oldPayments, startPayments } from '../payments-app.js';
import { AMOUNT, itKeepsFailures, itSwitches, pay, type Deployment } from '../switch.js';
import { OldProblemsFilter } from './old-problems.filter.js';
import { platforms } from '../../../test/support/http/combinations.js';
import { until } from '../../../test/support/waiting/until.js';
import { outcomeOf, type OldRecords } from './legacy-nestjs-record.js';
import { nestjsPostgresRecord, OLD_POOL } from './legacy-nestjs-postgres.js';
import { nestjsRedisRecord, OLD_REDIS } from './legacy-nestjs-redis.js';
import { inPostgres, inRedis, standIn, TABLE } from './stand-in.js';

const SECRET = 'a secret of the old module, 32 characters and more';

const redis = useRedisClient(useRedis());
const server = usePostgres();
let pool: Pool;
beforeAll(async () => {
  pool = openPostgresPool(await server.newDatabase());
  await pool.query(TABLE);
});
afterAll(() => pool.end());

const scope = ({ scope: [user] }: { readonly scope: readonly unknown[] }) => String(user);
const charges = async (order: string) => Number(await redis.get(`charges:${order}`));

const STORES = [
  ['on Redis, in clear', nestjsRedisRecord, () => inRedis(redis), undefined],
  ['on Redis, sealed', nestjsRedisRecord, () => inRedis(redis), SECRET],
  ['on PostgreSQL, in clear', nestjsPostgresRecord, () => inPostgres(pool), undefined],
  ['on PostgreSQL, sealed', nestjsPostgresRecord, () => inPostgres(pool), SECRET],
] as const;

describe.each(STORES)('from @nestjs/idempotency %s,', (_, reader, store, secret) => {
  const old: OldRecords = {
    scope,
    ...(secret && { keys: ['another key of its list, no longer the first', secret] }),
  };
  const onTakeover = reader(old);
  const protect = Idempotent({ lease: { onTakeover, recoverOn: 'always' } });
  const apps: INestApplication[] = [];
  let before: string;
  let after: string;
  let mistaken: string;

  beforeAll(async () => {
    const providers = [
      { provide: OLD_REDIS, useValue: redis },
      { provide: OLD_POOL, useValue: pool },
    ];
    const controllers = [
      oldPayments('payments', standIn(store, secret)),
      oldPayments('payments', protect),
      mistakenPayments(onTakeover),
    ];
    const urls: string[] = [];
    for (const controller of controllers) {
      const [app, url] = await startPayments({
        redis,
        platform: 'fastify',
        controllers: [controller],
        providers,
      });
      apps.push(app);
      urls.push(url);
    }
    [before = '', after = '', mistaken = ''] = urls;
  }, 60_000);
  afterAll(() => Promise.all(apps.map((app) => app.close())));

  const deployment = (): Deployment => ({
    before,
    after,
    mistaken,
    charges,
    open: (order) => redis.rpush(`open:${order}`, 1),
    // The old module compares the content, which a reservation does not have.
    reserved: 422,
  });
  itSwitches(deployment);
  itKeepsFailures(deployment);
});

describe('the readers of the old records of @nestjs/idempotency', () => {
  let app: CallingApp;
  beforeAll(async () => {
    app = await callingApp({
      providers: [
        { provide: OLD_REDIS, useValue: redis },
        { provide: OLD_POOL, useValue: pool },
      ],
    });
  });
  afterAll(() => app.nest.close());

  const run = (key: string, onTakeover: Recover) =>
    app.nest
      .get(IdempotencyService)
      .run(
        { operation: 'pay', key, scope: 'alice', lease: { onTakeover, recoverOn: 'always' } },
        () => 'ran',
      );

  it('restore what the old module tags', () => {
    const tagged = (type: string, value: unknown) => ({ __idempotencyType: type, value });
    const body = {
      at: tagged('Date', '2026-10-01T00:00:00.000Z'),
      never: tagged('Date', null),
      large: tagged('BigInt', '12345678901234567890'),
      bytes: tagged('Bytes', 'AQI='),
      map: tagged('Map', [['a', tagged('Set', [1])]]),
      own: tagged('Object', { __idempotencyType: 'Date' }),
      list: [null, true, 'x'],
    };
    const restored = outcomeOf({ status: 201, body }, 'alice:key', { scope });
    // Not by toEqual: Jest has classes of its own.
    expect(inspect(restored, { depth: null })).toBe(
      inspect(
        {
          value: {
            at: new Date('2026-10-01'),
            never: new Date(NaN),
            large: 12345678901234567890n,
            bytes: Buffer.from([1, 2]),
            map: new Map([['a', new Set([1])]]),
            own: { __idempotencyType: 'Date' },
            list: [null, true, 'x'],
          },
        },
        { depth: null },
      ),
    );
  });

  it.each([
    ['without the key', [], (sealed: string) => sealed],
    ['with another key', ['another secret of 32 characters and more'], (sealed: string) => sealed],
    ['that was moved to another name', [SECRET], (sealed: string) => sealed],
    [
      'that was changed',
      [SECRET],
      (sealed: string) => sealed.slice(0, -2) + (sealed.endsWith('AA') ? 'BB' : 'AA'),
    ],
  ])('run nothing for a sealed record %s', async (_, keys, change) => {
    const key = randomUUID();
    const from = `${_.includes('moved') ? 'other' : ''}${key}`;
    const [old, url] = await startPayments({
      redis,
      platform: 'express',
      controllers: [
        oldPayments(
          'payments',
          standIn(() => inRedis(redis), SECRET),
        ),
      ],
    });
    await pay(url, from);
    await old.close();
    const { sealed } = JSON.parse(String(await redis.hget(`idem:alice:${from}`, 'resp'))) as {
      sealed: string;
    };
    await redis.hset(`idem:alice:${key}`, {
      state: 'completed',
      resp: JSON.stringify({ sealed: change(sealed) }),
    });
    await expect(run(key, nestjsRedisRecord({ scope, keys }))).rejects.toThrow();
    await expect(run(key, nestjsRedisRecord({ scope, keys }))).rejects.toThrow();
  });

  it('reserve a key whose old row has expired', async () => {
    const key = randomUUID();
    await inPostgres(pool).acquire(`alice:${key}`, 'old', 'f');
    const error = await rejection(run(key, nestjsPostgresRecord({ scope })));
    expect(error.getStatus()).toBe(409);
    await pool.query('UPDATE idempotency_keys SET expires_at = 0 WHERE key = $1', [`alice:${key}`]);
    expect(await run(key, nestjsPostgresRecord({ scope }))).toBe('ran');
  });
});

it.each(platforms)(
  'OldProblemsFilter answers with the bodies and codes of the old module, on %s',
  async (platform) => {
    const [app, url] = await startPayments({
      redis,
      platform,
      controllers: [oldPayments('payments', Idempotent())],
      filters: [OldProblemsFilter],
    });
    const order = randomUUID();
    const published: unknown[] = [];
    const listener = (message: unknown) => void published.push((message as { code: string }).code);
    subscribe('nestjs:idempotency:rejected', listener);
    const send = async (headers: Record<string, string>, amount = 1) => {
      const response = await fetch(`${url}/payments`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ order, amount }),
      });
      const type = response.headers.get('content-type');
      const body = (await response.json()) as object;
      return { type, retryAfter: response.headers.get('retry-after'), ...body };
    };
    const type = expect.stringMatching(/^application\/json/);
    expect(await send({})).toMatchObject({
      type,
      statusCode: 400,
      error: 'Bad Request',
      code: 'IDEMPOTENCY_KEY_REQUIRED',
    });
    expect(await send({ 'idempotency-key': '"' })).toMatchObject({
      statusCode: 400,
      code: 'IDEMPOTENCY_KEY_INVALID',
    });
    await send({ 'idempotency-key': order });
    expect(await send({ 'idempotency-key': order }, 2)).toMatchObject({
      type,
      statusCode: 422,
      error: 'Unprocessable Entity',
      code: 'IDEMPOTENCY_KEY_REUSED',
    });
    const held = send({ 'idempotency-key': `${order}-held` }, AMOUNT.held);
    await until(async () => (await charges(order)) === 2);
    expect(await send({ 'idempotency-key': `${order}-held` }, AMOUNT.held)).toMatchObject({
      statusCode: 409,
      error: 'Conflict',
      code: 'IDEMPOTENCY_KEY_IN_USE',
      retryAfter: '1',
    });
    await redis.rpush(`open:${order}`, 1);
    await held;
    await app.close();
    unsubscribe('nestjs:idempotency:rejected', listener);
    expect(published).toEqual([
      'IDEMPOTENCY_KEY_REQUIRED',
      'IDEMPOTENCY_KEY_INVALID',
      'IDEMPOTENCY_KEY_REUSED',
      'IDEMPOTENCY_KEY_IN_USE',
    ]);
  },
);
