import { Controller, Post } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { Pool } from 'pg';
import {
  IdempotencyEvents,
  Idempotent,
  type IdempotencyEvent,
  type IdempotencyStore,
} from 'nestjs-idempotency';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import { watchedPool } from '../../../support/postgres/watched-pool.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import type { RawResponse } from '../../../support/http/wire/raw-response.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';
import { openPostgresPool } from '../../../support/postgres/postgres-pool.js';
import { ShiftingRelay } from '../../../support/postgres/shifting-relay.js';
import { usePostgres } from '../../../support/postgres/use-postgres.js';

const BEGIN = 'idempotency_begin_';
const COMPLETE = 'idempotency_complete_';
const ROUNDS = 20;

@Controller()
class OrdersController {
  @Post('orders')
  @Idempotent()
  async create(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run(), order: scenario.id };
  }
}

/** One connection, so that all statements share it. */
const CONNECTION = { max: 1 };

interface Way {
  readonly name: string;
  open(url: string): { readonly store: IdempotencyStore; readonly pool?: Pool };
}

const OWN_POOL: Way = {
  name: 'the store’s own pool',
  open: (url) => ({ store: postgresStore({ url, connection: CONNECTION, push: false }) }),
};

const USERS_POOL: Way = {
  name: 'the application’s pool',
  open: (url) => {
    const pool = openPostgresPool(url, CONNECTION);
    return { store: postgresStore({ client: pool }), pool };
  },
};

/** Stands for a store that does not compare nonces: each reply carries the expected nonce. */
const BELIEVING: Way = {
  name: 'a pool that forges the expected nonce',
  open: (url) => {
    const pool = openPostgresPool(url, CONNECTION);
    const client = watchedPool(pool, ({ values }, result) => {
      const [row] = result.rows as readonly { reply?: string }[];
      const words = row?.reply?.split(' ').slice(1) ?? [];
      return { rows: [{ reply: [values.at(-1), ...words].join(' ') }] };
    });
    return { store: postgresStore({ client }), pool };
  },
};

const server = usePostgres();
let relay: ShiftingRelay;
let app: TestApp;
let pool: Pool | undefined;
let events: IdempotencyEvent[];

async function start(way: Way): Promise<void> {
  const url = await server.newDatabase();
  await migrate({ url });
  relay = await ShiftingRelay.start(server.port);
  const address = new URL(url);
  address.port = String(relay.port);
  const opened = way.open(address.href);
  pool = opened.pool;
  app = await startApp({
    platform: 'express',
    controllers: [OrdersController],
    store: opened.store,
    options: {
      storeErrors: { commandTimeoutMs: 5_000, saveTimeoutMs: 5_000, whenNotSaved: 'error' },
    },
  });
  events = [];
  app.nest
    .get(IdempotencyEvents, { strict: false })
    .subscribe((event) => events.push(event), { replacesLog: true });
}

afterEach(async () => {
  await app.close();
  await pool?.end();
  await relay.stop();
});

const mismatches = () => events.filter(({ type }) => type === 'reply_mismatched');

/** The responses that belong to another request. */
function foreign(scenario: Scenario, responses: readonly RawResponse[]): RawResponse[] {
  return responses.filter(
    ({ status, json }) =>
      status !== 503 && !(status === 201 && (json as { order: unknown }).order === scenario.id),
  );
}

/** Sends requests of different keys, each after a replay whose store reply is delivered again instead of its own. */
async function differentKeys(rounds: number): Promise<RawResponse[]> {
  const strangers: RawResponse[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const [before, scenario] = [app.scenario(), app.scenario()];
    const first = await before.post('/orders');
    const replay = await before.post('/orders');
    relay.shiftAt([BEGIN, COMPLETE][round % 2]!);
    const responses = [await scenario.post('/orders'), await scenario.post('/orders')];
    strangers.push(...foreign(before, [first, replay]), ...foreign(scenario, responses));
  }
  return strangers;
}

/** Gives a duplicate the reply to the begin that acquired the key. */
async function hotKey(): Promise<{
  duplicate: RawResponse;
  scenario: Scenario;
  first: RawResponse;
}> {
  const scenario = app.scenario();
  scenario.gate.close();
  const pending = scenario.start('POST', '/orders');
  await scenario.started.reached(1);
  relay.shiftAt(BEGIN);
  const repeated = scenario.start('POST', '/orders');
  await Promise.race([repeated.response, scenario.started.reached(2)]);
  scenario.gate.open();
  const [first, duplicate] = await Promise.all([pending.response, repeated.response]);
  return { duplicate, scenario, first };
}

describe.each([OWN_POOL, USERS_POOL])(
  'shifted replies of a PostgreSQL connection with $name',
  (way) => {
    beforeEach(() => start(way));

    it('never give a request the response of another key, and the next requests succeed', async () => {
      expect(await differentKeys(ROUNDS)).toEqual([]);
      expect(relay.shifts).toBe(ROUNDS);
      expect(mismatches()).toHaveLength(ROUNDS);
      const scenario = app.scenario();
      const first = await scenario.post('/orders');
      expect(first.status).toBe(201);
      expectReplay(await scenario.post('/orders'), first);
      expect(mismatches()).toHaveLength(ROUNDS);
    }, 60_000);

    it('never make a duplicate the owner of its key', async () => {
      const { duplicate, scenario, first } = await hotKey();
      expectProblem(duplicate, 'store-unavailable');
      expect(first.status).toBe(201);
      expectReplay(await scenario.post('/orders'), first);
      expect(scenario.executions).toBe(1);
      expect(mismatches()).toEqual([
        {
          type: 'reply_mismatched',
          error: expect.objectContaining({ code: 'idempotency_store_reply_mismatched' }),
        },
      ]);
    });
  },
);

describe('an error of another statement in place of a reply', () => {
  beforeEach(() => start(USERS_POOL));

  it('is not accepted either', async () => {
    const scenario = app.scenario();
    await expect(pool?.query('SELECT 1 / 0')).rejects.toThrow('division by zero');
    relay.shiftAt(BEGIN);
    expectProblem(await scenario.post('/orders'), 'store-unavailable');
    expect(mismatches()).toHaveLength(1);
    expect(await scenario.post('/orders')).toMatchObject({ status: 201, json: { execution: 1 } });
  });
});

describe('without the comparison of nonces', () => {
  beforeEach(() => start(BELIEVING));

  it('the same requests get responses of other keys', async () => {
    const strangers = await differentKeys(1);
    expect(strangers).toContainEqual(expect.objectContaining({ status: 201, replayed: true }));
  });

  it('the same duplicate runs the operation again', async () => {
    const { scenario } = await hotKey();
    expect(scenario.executions).toBe(2);
  });
});
