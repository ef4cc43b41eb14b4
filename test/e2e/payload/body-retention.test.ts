import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Controller, HttpException, Post } from '@nestjs/common';
import {
  IdempotencyEvents,
  IdempotencyService,
  Idempotent,
  IdempotencyStore,
  staticKeys,
  type IdempotencyEvent,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { fileBlobs } from 'nestjs-idempotency/blobs/file';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import { describeWithClock, ServerClock } from '../../support/clocks/server-clock.js';
import { platforms } from '../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../support/http/expectations.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { START_HOOK_MS } from '../../support/servers/start-server.js';
import { startRedis, type RedisServer } from '../../support/redis/redis-server.js';
import { useBank } from '../transactional/support/bank.js';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const ABOVE = 10_000;
const OUTCOME = { retention: '1d', bodyRetention: '1h', offload: { aboveBytes: ABOVE } } as const;

@Controller()
class Statements {
  @Post('small')
  @Idempotent()
  small(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('large')
  @Idempotent()
  async large(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run(), text: randomBytes(ABOVE).toString('hex') };
  }

  @Post('declined')
  @Idempotent()
  async declined(@InScenario() scenario: Scenario) {
    throw new HttpException({ execution: await scenario.run() }, 402);
  }

  @Post('as-long')
  @Idempotent({ outcome: { bodyRetention: '1d' } })
  asLong(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

const apps: TestApp[] = [];
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'idempotency-blobs-'));
});
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
  await rm(directory, { recursive: true, force: true });
});

async function start(
  store: IdempotencyStore,
  options: Omit<IdempotencyModuleOptions, 'store'> = {},
  platform: (typeof platforms)[number] = 'express',
) {
  const app = await startApp({
    platform,
    controllers: [Statements],
    store,
    options: {
      blobs: fileBlobs({ directory }),
      outcome: OUTCOME,
      storeErrors: { commandTimeout: '5s' },
      ...options,
    },
  });
  apps.push(app);
  const events: IdempotencyEvent[] = [];
  app.nest.get(IdempotencyEvents, { strict: false }).subscribe((event) => void events.push(event));
  return { app, events };
}

/** A store, and how the time of its own clock passes. */
interface Timed {
  newStore(): IdempotencyStore;
  pass(ms: number): unknown;
}

const KEYS = staticKeys({ current: 'k1', keys: { k1: randomBytes(32) } });
const FORMS: readonly [string, Omit<IdempotencyModuleOptions, 'store'>][] = [
  ['in clear', {}],
  ['encrypted', { secrets: KEYS }],
];

function describeOn(name: string, timed: Timed): void {
  describe(name, () => {
    describe.each(FORMS)('a response %s', (_, form) => {
      it.each(['/small', '/large', '/declined'])(
        'of %s is replayed for the body, then only known to be done, and then a first request again',
        async (path) => {
          const { app, events } = await start(timed.newStore(), form);
          const scenario = app.scenario();
          const first = await scenario.post(path);
          await timed.pass(HOUR_MS - 60_000);
          expectReplay(await scenario.post(path), first);
          await timed.pass(120_000);
          for (const passed of [0, DAY_MS - HOUR_MS - 180_000]) {
            await timed.pass(passed);
            expectProblem(await scenario.post(path), 'response-not-kept');
          }
          expect(scenario.executions).toBe(1);
          expect(events.map(({ type }) => type)).not.toContain('outcome_unreadable');
          await timed.pass(180_000);
          const next = await scenario.post(path);
          expect(next).toMatchObject({ status: first.status, replayed: false });
          expect(scenario.executions).toBe(2);
        },
      );
    });
  });
}

let now = Date.now();
describeOn('In memory,', {
  newStore: () => memoryStore({ now: () => now }),
  pass: (ms) => (now += ms),
});

const bank = useBank();
describeOn('On PostgreSQL,', { newStore: () => bank.newStore(), pass: (ms) => bank.passTime(ms) });

describeWithClock('By the clock of Redis,', () => {
  let clock: ServerClock;
  let redis: RedisServer;
  beforeAll(async () => {
    clock = new ServerClock();
    redis = await startRedis({ env: clock.env });
  }, START_HOOK_MS);
  afterAll(async () => {
    await redis.stop();
    clock.remove();
  });
  describeOn('on Redis,', {
    newStore: () => redisStore({ url: redis.url }),
    pass: (ms) => {
      clock.pass(ms);
    },
  });
});

describe.each(platforms)('On %s,', (platform) => {
  it('the last millisecond of the body is a replay, and the next one is not', async () => {
    const { app } = await start(memoryStore({ now: () => now }), {}, platform);
    const scenario = app.scenario();
    const first = await scenario.post('/small');
    now += HOUR_MS - 1;
    expectReplay(await scenario.post('/small'), first);
    now += 1;
    expectProblem(await scenario.post('/small'), 'response-not-kept');
  });

  it('a route may keep its bodies as long as its records', async () => {
    const { app } = await start(memoryStore({ now: () => now }), {}, platform);
    const scenario = app.scenario();
    const first = await scenario.post('/as-long');
    now += DAY_MS - 1;
    expectReplay(await scenario.post('/as-long'), first);
  });
});

it('The body in a blob store expires by its own retention, not by that of the record', async () => {
  const outcome = { ...OUTCOME, retention: '300d' } as const;
  const { app } = await start(memoryStore(), { outcome });
  const before = await readdir(directory, { recursive: true });
  await app.scenario().post('/large');
  const after = await readdir(directory, { recursive: true });
  // A day's folder may be there already, and near midnight another one besides.
  const [made] = after.filter((name) => !before.includes(name) && name.split('/').length > 2);
  const [, day = ''] = /^d1\/(\d{4}-\d\d-\d\d)\//.exec(made ?? '') ?? [];
  const left = Date.parse(day) - Date.now();
  expect(left).toBeLessThan(DAY_MS);
});

it('A value of a call is not kept either, when its body is over', async () => {
  const { app } = await start(memoryStore({ now: () => now }));
  const calls = app.nest.get(IdempotencyService, { strict: false });
  const call = { operation: 'report', key: 'k', scope: ['alice'] };
  expect(await calls.run(call, () => 'value')).toBe('value');
  now += HOUR_MS - 1;
  expect(await calls.run(call, () => 'again')).toBe('value');
  now += 1;
  await expect(calls.run(call, () => 'again')).rejects.toMatchObject({
    code: 'idempotency_response_not_kept',
  });
});

it('A retention that a function chooses may be shorter than that of the body', async () => {
  const outcome = { retention: () => '10m' as const, bodyRetention: '1h' } as const;
  const { app } = await start(memoryStore({ now: () => now }), { outcome });
  const scenario = app.scenario();
  const first = await scenario.post('/small');
  now += 599_999;
  expectReplay(await scenario.post('/small'), first);
  now += 1;
  expect(await scenario.post('/small')).toMatchObject({ status: 201, replayed: false });
});

it('A body is not kept for longer than its record: the start stops', async () => {
  const outcome = { retention: '1h', bodyRetention: '2h' } as const;
  await expect(start(memoryStore(), { outcome })).rejects.toThrow(
    'The option "outcome.bodyRetention" must be at most outcome.retention, which is 3600000ms, but it is "7200000ms"',
  );
});
