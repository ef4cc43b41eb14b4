import { Controller, Inject, Post, type Type } from '@nestjs/common';
import { ROUTE_ARGS_METADATA } from '@nestjs/common/constants.js';
import { REQUEST } from '@nestjs/core';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { afterTest } from '../../support/jest/after-test.js';
import { Around, givingUp } from '../../support/http/around.js';
import { platforms } from '../../support/http/combinations.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp } from '../../support/http/start-app.js';
import { rejection } from '../../support/nest/calling-app.js';
import { copyMetadata, Wrapping } from './support/wrapping.js';

type Replace = (instance: any) => object;

/** Ways in which an instance replaces its class's method. */
const replacing: readonly (readonly [name: string, replace: Replace])[] = [
  ['a bound method', (instance) => Object.assign(instance, { pay: instance.pay.bind(instance) })],
  [
    'a method with copied metadata',
    (instance) => {
      const pay = instance.pay.bind(instance);
      copyMetadata(instance.pay, pay);
      return Object.assign(instance, { pay });
    },
  ],
  [
    'a getter',
    (instance) => {
      const pay = instance.pay.bind(instance);
      return Object.defineProperty(instance, 'pay', { get: () => pay });
    },
  ],
  [
    'a proxy',
    (instance) =>
      new Proxy(instance, {
        get: (target, name) => (name === 'pay' ? target.pay.bind(target) : target[name]),
      }),
  ],
];

function payments(replace: Replace): Type {
  @Controller()
  class Payments {
    constructor() {
      return replace(this) as this;
    }

    @Post()
    @Idempotent()
    async pay(@InScenario() scenario: Scenario) {
      return scenario.response();
    }
  }
  return Payments;
}

/** A controller that is created for each request. */
function scoped(replace: Replace): Type {
  @Controller()
  class Payments {
    constructor(@Inject(REQUEST) _request: unknown) {
      return replace(this) as this;
    }

    @Post()
    @Idempotent()
    async pay(@InScenario() scenario: Scenario) {
      return scenario.response();
    }

    @Post('plain')
    async plain(@InScenario() scenario: Scenario) {
      return this.pay(scenario);
    }
  }
  return Payments;
}

/** A mixin as in TypeScript's handbook. */
function mixIn(target: Type, source: Type): void {
  for (const name of Object.getOwnPropertyNames(source.prototype)) {
    const descriptor = Object.getOwnPropertyDescriptor(source.prototype, name);
    if (name === 'constructor' || !descriptor) continue;
    Object.defineProperty(target.prototype, name, descriptor);
    // Parameter decorators store their metadata on the class.
    const args: unknown = Reflect.getMetadata(ROUTE_ARGS_METADATA, source, name);
    Reflect.defineMetadata(ROUTE_ARGS_METADATA, args, target, name);
  }
}

/** Copies only the methods, without the class's own metadata. */
function mixed(replace: Replace): Type {
  @Controller()
  class Mixed {
    constructor(@Inject(REQUEST) _request: unknown) {
      return replace(this);
    }
  }
  mixIn(
    Mixed,
    payments((instance) => instance as object),
  );
  return Mixed;
}

describe.each(platforms)('instances on %s', (platform) => {
  async function listening(controller: Type) {
    const app = await startApp({ platform, store: memoryStore(), controllers: [controller] });
    afterTest(() => app.close());
    return app;
  }

  it.each(replacing)('the start fails where an instance has %s', async (_, replace) => {
    const error = await rejection(listening(payments(replace)));
    expect(error.code).toBe('idempotency_options_invalid');
    expect(error.message).toMatch(/^@Idempotent\(\) on Payments\.pay cannot protect it: the inst/);
  });

  it.each(replacing)('nothing runs where a request’s instance has %s', async (_, replace) => {
    const app = await listening(scoped(replace));
    const scenario = app.scenario();
    expect((await scenario.post('/')).status).toBe(500);
    expect(scenario.executions).toBe(0);
  });

  // A proxy around such an instance is not detected, as Nest injects nothing into it.
  it.each(replacing.slice(0, 3))(
    'nothing runs where a request’s instance of a mixin has %s',
    async (_, replace) => {
      const app = await listening(mixed(replace));
      const scenario = app.scenario();
      expect((await scenario.post('/')).status).toBe(500);
      expect(scenario.executions).toBe(0);
    },
  );

  it.each([
    ['a class', scoped],
    ['a mixin', mixed],
  ])('a request’s instance of %s that replaces nothing is protected', async (_, define) => {
    const app = await listening(define((instance) => instance as object));
    const scenario = app.scenario();
    const first = await scenario.post('/');
    expectReplay(await scenario.post('/'), first);
    expect(scenario.executions).toBe(1);
  });

  it('other code calls a handler as a plain method', async () => {
    const app = await listening(scoped((instance) => instance as object));
    const scenario = app.scenario();
    expect((await scenario.post('/plain')).status).toBe(201);
    const [, bind] = replacing[0]!;
    const instance = new (payments(bind))() as { pay(scenario: Scenario): unknown };
    expect(await instance.pay(scenario)).toEqual({ execution: 2 });
  });

  it('a retrying decorator around a method that a mixin copied is part of the operation', async () => {
    const retrying = Wrapping(async (run, [scenario]) => {
      try {
        return await run();
      } catch {
        scenario.notes.push('retrying');
        await scenario.gate.pass();
        return await run();
      }
    });
    class Trait {
      @retrying
      @Post()
      @Around(givingUp)
      @Idempotent()
      async pay(@InScenario() scenario: Scenario) {
        if (scenario.started.add() === 1) throw new Error('planned');
        return Promise.resolve({ paid: true });
      }
    }
    @Controller()
    class Payments {}
    mixIn(Payments, Trait);
    const app = await listening(Payments);
    const scenario = app.scenario();
    scenario.timeout.close();
    scenario.gate.close();
    const pending = scenario.start('POST', '/');
    for (let iteration = 0; scenario.notes.length === 0; iteration += 1) {
      if (iteration === 500) throw new Error('the decorator did not retry');
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    scenario.timeout.open();
    expect((await pending.response).status).toBe(503);
    expectProblem(await scenario.post('/'), 'in-progress');
    scenario.gate.open();
  });
});
