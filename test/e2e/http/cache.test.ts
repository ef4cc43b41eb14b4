import { ClassSerializerInterceptor } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { IdempotencyEvents, type IdempotencyEvent } from 'nestjs-idempotency';
import {
  AnswersController,
  ExpressAnswersController,
  FastifyAnswersController,
} from '../../support/http/answers.controller.js';
import { platforms, useStores } from '../../support/http/combinations.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import { routesOf } from '../../support/http/routes-of.js';
import { startApp } from '../../support/http/start-app.js';
import { scriptCalls } from '../../support/script-calls.js';
import { useRedisClient } from '../../support/use-redis.js';
import { useServer } from '../../support/use-server.js';

const REPLAYS = 3;
const stores = useStores();

describe.each(platforms)('the local cache under %s, around Redis', (platform) => {
  const native = platform === 'express' ? ExpressAnswersController : FastifyAnswersController;
  const controllers = [AnswersController, native];
  const observer = useRedisClient(stores.redis);
  const events: IdempotencyEvent[] = [];

  const app = useServer(() =>
    startApp({
      platform,
      store: stores.fresh('redis'),
      controllers,
      options: { cache: true, commandTimeoutMs: 5_000 },
      configure: (nest) =>
        nest.useGlobalInterceptors(new ClassSerializerInterceptor(nest.get(Reflector))),
    }),
  );
  beforeAll(() => {
    app.nest.get(IdempotencyEvents).subscribe((event) => void events.push(event));
  });

  it.each(controllers.flatMap(routesOf))('replays %s byte for byte', async (path) => {
    const scenario = app.scenario();
    const first = await scenario.post(path);
    events.length = 0;
    const replays = [await scenario.post(path)];
    const before = await scriptCalls(observer);
    while (replays.length <= REPLAYS) replays.push(await scenario.post(path));
    expect((await scriptCalls(observer)) - before).toBe(0);
    for (const replay of replays) expectReplay(replay, first);
    expect(scenario.executions).toBe(1);
    const told = events.map((event) => event.type === 'replayed' && event.fromCache);
    expect(told).toEqual([false, ...Array<boolean>(REPLAYS).fill(true)]);
  });

  it('refuses the key for another content, and for nobody else: another caller has a key of his own', async () => {
    const scenario = app.scenario();
    const json = { amount: 1 };
    const first = await scenario.post('/object', { json });
    for (let time = 0; time < 2; time += 1) {
      expectReplay(await scenario.post('/object', { json }), first);
    }
    const before = await scriptCalls(observer);
    expectProblem(await scenario.post('/object', { json: { amount: 2 } }), 'key-reused');
    expect((await scriptCalls(observer)) - before).toBe(0);
    const other = await scenario.post('/object', { json, as: 'bob' });
    expect(other).toMatchObject({ replayed: false });
    expect(scenario.executions).toBe(2);
  });
});
