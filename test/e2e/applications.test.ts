import { Controller, Module, Param, Post, type INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import {
  Idempotent,
  IdempotencyEvents,
  IdempotencyModule,
  type IdempotencyModuleOptions,
  type IdempotencyStore,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { Gate } from '../support/waiting/gate.js';
import { openPostgresPool } from '../support/postgres/postgres-pool.js';
import { embeddedPostgres } from '../support/postgres/postgres-servers.js';
import { startRedis } from '../support/redis/redis-server.js';
import { untilSettled } from '../support/waiting/until.js';
import { useRedisClient } from '../support/redis/use-redis.js';
import { useServer } from '../support/servers/use-server.js';

/** The id of every charge. */
const charged: string[] = [];
const gate = new Gate();

@Controller()
class Payments {
  @Post('pay/:id')
  @Idempotent({ duplicates: 'wait' })
  async pay(@Param('id') id: string) {
    charged.push(id);
    await gate.pass();
    return { charge: charged.length };
  }
}

const redis = useServer(startRedis);
const redisClient = useRedisClient(redis);
const postgres = useServer(() => embeddedPostgres.start());
let database: string;
const pool = useServer(
  async () => {
    database = await postgres.newDatabase();
    const opened = openPostgresPool(database);
    await migrate({ client: opened });
    return opened;
  },
  (opened) => opened.end(),
);

const running = new Set<INestApplication>();
afterEach(async () => {
  gate.open();
  for (const app of running) await app.close();
  running.clear();
});

type Making = 'Test.createTestingModule' | 'NestFactory.create';

function moduleWith(store: IdempotencyStore, options: Partial<IdempotencyModuleOptions>) {
  @Module({
    imports: [
      IdempotencyModule.forRoot({
        store,
        ...options,
        caller: { anonymous: 'shared', ...options.caller },
      }),
    ],
    controllers: [Payments],
  })
  class AppModule {}
  return AppModule;
}

async function start(AppModule: new () => object, making: Making) {
  const app =
    making === 'NestFactory.create'
      ? await NestFactory.create(AppModule, { logger: false, abortOnError: false })
      : (await Test.createTestingModule({ imports: [AppModule] }).compile()).createNestApplication({
          logger: false,
        });
  await app.listen(0, '127.0.0.1');
  running.add(app);
  const url = await app.getUrl();
  const pay = async (id: string) => {
    const headers = { 'Idempotency-Key': id };
    const response = await fetch(`${url}/pay/${id}`, { method: 'POST', headers });
    const replayed = response.headers.has('idempotent-replayed');
    return { status: response.status, body: await response.text(), replayed };
  };
  const events = app.get(IdempotencyEvents, { strict: false });
  const reported: string[] = [];
  events.subscribe(({ type }) => void reported.push(type));
  const close = async () => {
    running.delete(app);
    await app.close();
  };
  return { pay, reported, close };
}

const chargesOf = (id: string) => charged.filter((one) => one === id).length;

interface Tested {
  readonly name: string;
  readonly make: () => IdempotencyStore;
  readonly options?: Partial<IdempotencyModuleOptions>;
  /** The open connections of the store. */
  readonly connections?: () => Promise<number>;
  readonly forgets?: boolean;
}

const AROUND = { breaker: true };
const ofRedis = async () =>
  String(await redisClient.client('LIST')).split('name=nestjs-idempotency ').length - 1;
const ofPostgres = async () => {
  const { rows } = await pool.query<{ count: number }>(
    "SELECT count(*)::integer FROM pg_stat_activity WHERE application_name = 'nestjs-idempotency'",
  );
  return rows[0]!.count;
};
const sharedUrl = () => redisStore({ url: redis.url });
const postgresUrl = () => postgresStore({ url: database });

const STORES: Tested[] = [
  { name: 'memoryStore()', make: () => memoryStore(), forgets: true },
  {
    name: 'memoryStore(), breaker',
    make: () => memoryStore(),
    options: AROUND,
    forgets: true,
  },
  { name: 'redisStore({ url })', make: sharedUrl, connections: ofRedis },
  {
    name: 'redisStore({ url }), breaker',
    make: sharedUrl,
    options: AROUND,
    connections: ofRedis,
  },
  {
    name: 'redisStore in database 3',
    make: () => redisStore({ url: `${redis.url}/3` }),
    connections: ofRedis,
  },
  { name: 'redisStore({ client })', make: () => redisStore({ client: redisClient }) },
  { name: 'postgresStore({ url })', make: postgresUrl, connections: ofPostgres },
  {
    name: 'postgresStore({ url }), breaker',
    make: postgresUrl,
    options: AROUND,
    connections: ofPostgres,
  },
  {
    name: 'postgresStore({ client, listenUrl })',
    make: () => postgresStore({ client: pool, listenUrl: database }),
    connections: ofPostgres,
  },
];

describe.each(STORES)('Applications of one module on one $name', (tested) => {
  const { make, options = {}, connections = () => Promise.resolve(0), forgets = false } = tested;

  it('start one after another, and leave no connection behind', async () => {
    const AppModule = moduleWith(make(), options);
    const early = randomUUID();
    for (const making of [
      'Test.createTestingModule',
      'NestFactory.create',
      'NestFactory.create',
    ] as const) {
      const { pay, close } = await start(AppModule, making);
      const id = randomUUID();
      const first = await pay(id);
      expect(first).toMatchObject({ status: 201, replayed: false });
      expect(await pay(id)).toEqual({ ...first, replayed: true });
      expect(chargesOf(id)).toBe(1);
      expect((await pay(early)).status).toBe(201);
      await close();
      await untilSettled(async () => (await connections()) === 0);
    }
    // Records in memory end with their last application; other stores keep them.
    expect(chargesOf(early)).toBe(forgets ? 3 : 1);
  }, 30_000);

  it('run concurrently: closing one does not affect the other', async () => {
    const AppModule = moduleWith(make(), options);
    const one = await start(AppModule, 'Test.createTestingModule');
    const other = await start(AppModule, 'NestFactory.create');
    const [shared, id] = [randomUUID(), randomUUID()];
    const paid = await one.pay(shared);
    expect(await other.pay(shared)).toEqual({ ...paid, replayed: true });
    expect(one.reported).toEqual(['acquired', 'completed', 'ended']);
    expect(other.reported).toEqual(['replayed']);

    gate.close();
    const slow = other.pay(id);
    while (chargesOf(id) === 0) await new Promise(setImmediate);
    const waiting = other.pay(id);
    while (other.reported.at(-1) !== 'acquired') await new Promise(setImmediate);
    await one.close();
    gate.open();
    const response = await slow;
    expect(response).toMatchObject({ status: 201, replayed: false });
    expect(await waiting).toEqual({ ...response, replayed: true });
    expect(await other.pay(shared)).toEqual({ ...paid, replayed: true });
    expect((await other.pay(randomUUID())).status).toBe(201);
    expect([chargesOf(shared), chargesOf(id)]).toEqual([1, 1]);
    await other.close();
    await untilSettled(async () => (await connections()) === 0);
  }, 30_000);
});
