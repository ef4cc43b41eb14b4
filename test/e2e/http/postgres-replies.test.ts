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
import { attendedPool } from '../../support/attended-pool.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import type { RawResponse } from '../../support/http/raw-response.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { openPostgresPool } from '../../support/postgres-pool.js';
import { ShiftingRelay } from '../../support/shifting-relay.js';
import { usePostgres } from '../../support/use-postgres.js';

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

/** One connection, so that each statement follows the one before on it. */
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

/** What a store would be that compares nothing: each reply carries the nonce that is looked for. */
const BELIEVING: Way = {
  name: 'a pool below which nothing is compared',
  open: (url) => {
    const pool = openPostgresPool(url, CONNECTION);
    const client = attendedPool(pool, ({ values }, result) => {
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
    options: { commandTimeoutMs: 5_000, saveTimeoutMs: 5_000, onSaveFailure: 'error' },
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

/** The answers that do not belong to whoever got them. */
function foreign(scenario: Scenario, answers: readonly RawResponse[]): RawResponse[] {
  return answers.filter(
    ({ status, json }) =>
      status !== 503 && !(status === 201 && (json as { order: unknown }).order === scenario.id),
  );
}

/** Requests of different keys, each after a replay, whose reply comes once more in place of its own. */
async function differentKeys(rounds: number): Promise<RawResponse[]> {
  const strangers: RawResponse[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const [before, scenario] = [app.scenario(), app.scenario()];
    const first = await before.post('/orders');
    const replay = await before.post('/orders');
    relay.shiftAt([BEGIN, COMPLETE][round % 2]!);
    const answers = [await scenario.post('/orders'), await scenario.post('/orders')];
    strangers.push(...foreign(before, [first, replay]), ...foreign(scenario, answers));
  }
  return strangers;
}

/** A duplicate on one key gets the reply of the begin that has acquired it. */
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
  'Where replies of PostgreSQL get out of step, $name',
  (way) => {
    beforeEach(() => start(way));

    it('no request is answered with another key’s, and the next ones succeed', async () => {
      expect(await differentKeys(ROUNDS)).toEqual([]);
      expect(relay.shifts).toBe(ROUNDS);
      expect(mismatches()).toHaveLength(ROUNDS);
      const scenario = app.scenario();
      const first = await scenario.post('/orders');
      expect(first.status).toBe(201);
      expectReplay(await scenario.post('/orders'), first);
      expect(mismatches()).toHaveLength(ROUNDS);
    }, 60_000);

    it('a duplicate is not taken for the attempt at the same key', async () => {
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

describe('Where an error of another statement comes in place of a reply', () => {
  beforeEach(() => start(USERS_POOL));

  it('it is not believed either', async () => {
    const scenario = app.scenario();
    await expect(pool?.query('SELECT 1 / 0')).rejects.toThrow('division by zero');
    relay.shiftAt(BEGIN);
    expectProblem(await scenario.post('/orders'), 'store-unavailable');
    expect(mismatches()).toHaveLength(1);
    expect(await scenario.post('/orders')).toMatchObject({ status: 201, json: { execution: 1 } });
  });
});

describe('With the comparison off', () => {
  beforeEach(() => start(BELIEVING));

  it('the same requests find answers of other keys', async () => {
    const strangers = await differentKeys(1);
    expect(strangers).toContainEqual(expect.objectContaining({ status: 201, replayed: true }));
  });

  it('the same duplicate runs the operation again', async () => {
    const { scenario } = await hotKey();
    expect(scenario.executions).toBe(2);
  });
});
