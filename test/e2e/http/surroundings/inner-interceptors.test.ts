import { BadRequestException, Controller, HttpException, Post } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import {
  currentIdempotencyContext,
  IdempotencyContext,
  IdempotencyEvents,
  Idempotent,
} from 'nestjs-idempotency';
import { EMPTY, from, ignoreElements, map, switchMap } from 'rxjs';
import { Around } from '../../../support/http/around.js';
import { platforms } from '../../../support/http/combinations.js';
import { expectReplay } from '../../../support/http/expectations.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { slowStore } from '../../../support/stores/slow-store.js';
import { useServer } from '../../../support/servers/use-server.js';

/** Waits for a lookup before it calls the handler. */
const lookingUp: Around = (next) =>
  from(Promise.resolve('looked up')).pipe(switchMap(() => next.handle()));

/** Throws on the handler's value, as envelopes and serializers may. */
const stumbling: Around = (next) =>
  next.handle().pipe(
    map(() => {
      throw new TypeError('cannot be wrapped');
    }),
  );

@Controller()
class InterceptedController {
  @Post('looked-up')
  @Around(lookingUp)
  @Idempotent()
  async lookedUp(
    @InScenario() scenario: Scenario,
    @IdempotencyContext() { key }: IdempotencyContext,
  ) {
    const execution = await scenario.run();
    return { execution, key, fromBelow: currentIdempotencyContext()?.key };
  }

  @Post('looked-up-and-declined')
  @Around(lookingUp)
  @Idempotent()
  async declined(@InScenario() scenario: Scenario) {
    throw new HttpException({ execution: await scenario.run() }, 402);
  }

  @Post('emptied')
  @Around((next) => next.handle().pipe(ignoreElements()))
  @Idempotent()
  async emptied(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('stumbled')
  @Around(stumbling)
  @Idempotent()
  async stumbled(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('left-out')
  @Around(() => EMPTY)
  @Idempotent()
  async leftOut(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }
}

@Controller('class')
@Idempotent()
class ProtectedAsAWholeController {
  @Post('stumbled')
  @Around(stumbling)
  async stumbled(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('declined')
  @Around((next) => next.handle().pipe(map((response: object) => ({ ...response, wrapped: true }))))
  async declined(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    if (scenario.planned(execution) === 'decline') throw new BadRequestException({ execution });
    return { execution };
  }
}

describe.each(platforms)('an inner interceptor on %s', (platform) => {
  const app = useServer(() =>
    startApp({
      platform,
      store: slowStore(),
      controllers: [InterceptedController, ProtectedAsAWholeController],
    }),
  );

  it('that calls the handler later calls it in its idempotency context', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/looked-up');
    expect(first).toMatchObject({
      status: 201,
      json: { execution: 1, key: scenario.key, fromBelow: scenario.key },
    });
    expectReplay(await scenario.post('/looked-up'), first);
    expect(scenario.executions).toBe(1);
  });

  it('C74 the handler’s 4xx is kept although an interceptor called the handler later', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/looked-up-and-declined');
    expect(first).toMatchObject({ status: 402, json: { execution: 1 } });
    expectReplay(await scenario.post('/looked-up-and-declined'), first);
    expect(scenario.executions).toBe(1);
  });

  it('that drops the handler’s value does not cause a second execution', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/emptied');
    // Nest's own response to a stream without a value.
    expect(first).toMatchObject({ status: 500, replayed: false });
    expectReplay(await scenario.post('/emptied'), first);
    expect(scenario.executions).toBe(1);
  });

  it('that neither calls the handler nor emits a value frees the key', async () => {
    const scenario = app.scenario();
    for (let post = 1; post <= 2; post += 1) {
      expect(await scenario.post('/left-out')).toMatchObject({ status: 500, replayed: false });
    }
    expect(scenario.executions).toBe(0);
  });

  it('that throws after a success is part of the operation, which has failed and runs again', async () => {
    const scenario = app.scenario();
    for (let post = 1; post <= 2; post += 1) {
      expect(await scenario.post('/stumbled')).toMatchObject({ status: 500, replayed: false });
      expect(scenario.executions).toBe(post);
    }
  });

  it('that throws after a success is outside of it where the class is protected, and nothing runs again', async () => {
    const scenario = app.scenario();
    const reported: string[] = [];
    const unsubscribe = app.nest
      .get(IdempotencyEvents)
      .subscribe(({ type }) => void reported.push(type));
    const first = await scenario.post('/class/stumbled');
    unsubscribe();
    expect(first).toMatchObject({ status: 500, replayed: false });
    expect(reported).toContain('response_diverged');
    expectReplay(await scenario.post('/class/stumbled'), first);
    expect(scenario.executions).toBe(1);
  });

  it('C74 the handler’s 4xx is kept where the class is protected', async () => {
    const scenario = app.scenario();
    scenario.plan = ['decline'];
    const first = await scenario.post('/class/declined');
    expect(first).toMatchObject({ status: 400, json: { execution: 1 } });
    expectReplay(await scenario.post('/class/declined'), first);
    expect(scenario.executions).toBe(1);
  });

  it('adds to the response, and the replay has it too, where the class is protected', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/class/declined');
    expect(first.json).toEqual({ execution: 1, wrapped: true });
    expectReplay(await scenario.post('/class/declined'), first);
    expect(scenario.executions).toBe(1);
  });
});
