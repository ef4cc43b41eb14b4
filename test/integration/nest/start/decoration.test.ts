import { setImmediate } from 'node:timers/promises';
import { Body, Controller, InternalServerErrorException, Param, Post, Put } from '@nestjs/common';
import { ClientProxyFactory, MessagePattern, Transport } from '@nestjs/microservices';
import { describe, expect, it } from '@jest/globals';
import {
  currentIdempotencyContext,
  IdempotencyContext,
  IdempotencyService,
  Idempotent,
  NoIdempotencyContextError,
  requireIdempotencyContext,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { lastValueFrom } from 'rxjs';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { freePort } from '../../../support/servers/free-port.js';
import { useServer } from '../../../support/servers/use-server.js';
import { Around, givingUp } from '../../../support/http/around.js';
import { platforms } from '../../../support/http/combinations.js';
import { slowStore } from '../../../support/stores/slow-store.js';

class Crud {
  @Post()
  async create(@InScenario() scenario: Scenario) {
    scenario.notes.push(currentIdempotencyContext()?.operation);
    return { execution: await scenario.run() };
  }

  @Put(':id')
  async replace(@InScenario() scenario: Scenario, @Param('id') id: string) {
    scenario.notes.push(currentIdempotencyContext()?.operation);
    return { execution: await scenario.run(), id };
  }
}

@Controller('orders')
@Idempotent({ key: { required: false }, duplicates: { retryAfter: 7_000 } })
class Orders extends Crud {
  @Post('own')
  async own(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('strict')
  @Idempotent({ key: { required: true }, operation: 'strict-order' })
  async strict(@InScenario() scenario: Scenario) {
    scenario.notes.push(currentIdempotencyContext()?.operation);
    return { execution: await scenario.run() };
  }

  @Post('calls')
  async calls(@InScenario() scenario: Scenario) {
    const inner = await this.own(scenario);
    return { outer: await scenario.run(), inner };
  }

  /** Not a route, so it is not wrapped. */
  total() {
    return this.helper();
  }

  helper() {
    return 7;
  }
}

/** The same base class without idempotency. */
@Controller('drafts')
class Drafts extends Crud {}

@Controller('orders-v2')
@Idempotent({ key: { required: false } })
class OrdersV2 extends Orders {
  @Put(':id')
  override async replace(@InScenario() scenario: Scenario, @Param('id') id: string) {
    return super.replace(scenario, `v2-${id}`);
  }

  override async strict(scenario: Scenario) {
    return super.strict(scenario);
  }
}

describe('@Idempotent() on a class', () => {
  const app = useServer(() =>
    startApp({
      platform: 'express',
      store: memoryStore(),
      controllers: [Orders, Drafts, OrdersV2],
    }),
  );

  it.each(['/orders', '/orders/own', '/orders-v2', '/orders-v2/own'])(
    'protects its own and its inherited routes: POST %s',
    async (path) => {
      const scenario = app.scenario();
      const first = await scenario.post(path);
      expectReplay(await scenario.post(path), first);
      expect(scenario.executions).toBe(1);
    },
  );

  it('protects a route that a subclass overrides, once', async () => {
    const scenario = app.scenario();
    const first = await scenario.send('PUT', '/orders-v2/1');
    expect(first.json).toEqual({ execution: 1, id: 'v2-1' });
    expectReplay(await scenario.send('PUT', '/orders-v2/1'), first);
  });

  it('leaves the base class and its other subclasses as they are', async () => {
    const scenario = app.scenario();
    const responses = [await scenario.post('/drafts'), await scenario.post('/drafts')];
    expect(responses.map(({ json }) => json)).toEqual([{ execution: 1 }, { execution: 2 }]);
    expect(scenario.notes).toEqual([undefined, undefined]);
  });

  it('names operations after the controller that serves them, not the one that declares them', async () => {
    const [orders, v2] = [app.scenario(), app.scenario()];
    await orders.post('/orders');
    await v2.post('/orders-v2');
    expect([...orders.notes, ...v2.notes]).toEqual(['Orders.create', 'OrdersV2.create']);
  });

  it('applies its options to its routes; options of a method override them', async () => {
    const scenario = app.scenario();
    expect((await scenario.post('/orders/own', { key: null })).status).toBe(201);
    expectProblem(await scenario.post('/orders/strict', { key: null }), 'key-missing');
    await scenario.post('/orders/strict');
    expect(scenario.notes).toEqual(['strict-order']);

    const held = app.scenario();
    held.gate.close();
    const pending = held.start('POST', '/orders/strict');
    await held.started.reached(1);
    expectProblem(await held.post('/orders/strict'), 'in-progress', '7');
    held.gate.open();
    await pending.response;
  });

  it('leaves the call of a protected method by another one a plain call', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/orders/calls');
    expect(first.json).toEqual({ outer: 2, inner: { execution: 1 } });
    expectReplay(await scenario.post('/orders/calls'), first);
  });

  it('preserves its methods: names, lengths and plain calls', async () => {
    const orders = new Orders();
    expect([orders.create.name, orders.create.length]).toEqual(['create', 1]);
    expect([orders.replace.name, orders.replace.length]).toEqual(['replace', 2]);
    // Other decorators detect an asynchronous method by this.
    expect(orders.create.constructor.name).toBe('AsyncFunction');
    expect(orders.total()).toBe(7);
    const scenario = app.scenario();
    expect(await orders.own(scenario)).toEqual({ execution: 1 });
  });
});

/** Far below any handler. */
class Mailer {
  async send() {
    await setImmediate();
    await Promise.all([setImmediate(), new Promise((resolve) => setTimeout(resolve, 1))]);
    return new Promise((resolve) => {
      queueMicrotask(() => resolve(currentIdempotencyContext()));
    });
  }
}

@Controller()
class ContextController {
  private readonly mailer = new Mailer();

  constructor(private readonly service: IdempotencyService) {}

  @Post('context/:id')
  @Idempotent({ caller: { scope: () => ['acme', 7] } })
  async context(
    @IdempotencyContext() context: IdempotencyContext,
    @InScenario() scenario: Scenario,
    @Body() _body: unknown,
  ) {
    scenario.notes.push(context, await this.mailer.send(), requireIdempotencyContext());
    return { execution: await scenario.run() };
  }

  @Post('optional')
  @Idempotent({ key: { required: false } })
  async optional(@InScenario() scenario: Scenario) {
    scenario.notes.push(currentIdempotencyContext());
    return { execution: await scenario.run() };
  }

  @Post('undecorated')
  async undecorated(@IdempotencyContext() _context: IdempotencyContext) {
    return 'not reached';
  }

  @Post('nested')
  @Idempotent()
  async nested(@InScenario() scenario: Scenario) {
    const operation = () => currentIdempotencyContext()?.operation;
    scenario.notes.push(operation());
    const call = { operation: 'inner', key: scenario.key, scope: 'alice' };
    scenario.notes.push(await this.service.run(call, operation), operation());
    return { execution: await scenario.run() };
  }
}

describe('a method that handles requests and messages', () => {
  let runs = 0;

  @Controller('shipments')
  class Shipments {
    @Post()
    @MessagePattern('ship')
    @Idempotent({ message: { consumer: 'shipping' } })
    ship() {
      runs += 1;
      return { runs };
    }
  }

  it('is protected from duplicates of both', async () => {
    const options = { host: '127.0.0.1', port: await freePort() };
    const app = await startApp({
      platform: 'express',
      store: memoryStore(),
      controllers: [Shipments],
      configure: (nest) => {
        nest.connectMicroservice({ transport: Transport.TCP, options });
        return nest.startAllMicroservices();
      },
    });
    const client = ClientProxyFactory.create({ transport: Transport.TCP, options });
    client.setOnDispatchHook((packet) => {
      Object.assign(packet, { metadata: { 'idempotency-key': 'message' } });
    });
    const send = () => lastValueFrom(client.send<unknown>('ship', {}));
    const scenario = app.scenario();
    const first = await scenario.post('/shipments');
    expect(first.json).toEqual({ runs: 1 });
    expect([await send(), await send()]).toEqual([{ runs: 2 }, { runs: 2 }]);
    expectReplay(await scenario.post('/shipments'), first);
    expect(runs).toBe(2);
    await client.close();
    await app.close();
  });
});

describe('the context of an operation', () => {
  const app = useServer(() =>
    startApp({
      platform: 'express',
      store: memoryStore(),
      controllers: [ContextController],
    }),
  );

  it('is the same as a parameter and deep below the handler, with every member', async () => {
    const scenario = app.scenario();
    await scenario.post('/context/1', { key: `"${scenario.key}"` });
    const [parameter, below, required] = scenario.notes;
    expect(below).toBe(parameter);
    expect(required).toBe(parameter);
    expect(parameter).toMatchObject({
      key: scenario.key,
      scope: ['acme', 7],
      operation: 'ContextController.context',
      attempt: 1,
      isTakeover: false,
      isProtected: true,
    });
    expect(Number.isSafeInteger(parameter.fencingToken)).toBe(true);
    expect(parameter.fencingToken).toBeGreaterThan(0);
    expect(parameter.signal).toBeInstanceOf(AbortSignal);
    expect(parameter.signal.aborted).toBe(false);
  });

  it('belongs to its own request only', async () => {
    const scenarios = Array.from({ length: 10 }, () => app.scenario());
    await Promise.all(scenarios.map((scenario) => scenario.post('/context/1')));
    for (const { notes, key } of scenarios) {
      expect(notes.map((context) => context.key)).toEqual([key, key, key]);
    }
  });

  it('is undefined without a key and outside of a request', async () => {
    const scenario = app.scenario();
    await scenario.post('/optional', { key: null });
    await scenario.post('/optional');
    expect(scenario.notes).toEqual([undefined, expect.objectContaining({ key: scenario.key })]);
    expect(currentIdempotencyContext()).toBeUndefined();
    expect(requireIdempotencyContext).toThrow(NoIdempotencyContextError);
  });

  it('as a parameter fails the request without a context', async () => {
    expect((await app.scenario().post('/undecorated')).status).toBe(500);
  });

  it('is that of the innermost operation, then the outer one’s again', async () => {
    const scenario = app.scenario();
    await scenario.post('/nested');
    const outer = 'ContextController.nested';
    expect(scenario.notes).toEqual([outer, 'inner', outer]);
  });
});

async function effect(scenario: Scenario) {
  const execution = await scenario.run();
  if (scenario.planned(execution) === 'fail') throw new InternalServerErrorException();
  return { execution };
}

/** What a query builder returns: a thenable that is not a promise. */
class Query {
  private readonly result: Promise<unknown>;

  constructor(scenario: Scenario) {
    this.result = effect(scenario);
  }

  then(...handlers: Parameters<Promise<unknown>['then']>) {
    return this.result.then(...handlers);
  }
}

@Controller()
class ThenableController {
  @Post('plain')
  @Idempotent()
  plain(@InScenario() scenario: Scenario) {
    return new Query(scenario);
  }

  @Post('inside')
  @Idempotent()
  @Around(givingUp)
  inside(@InScenario() scenario: Scenario) {
    return new Query(scenario);
  }

  @Post('outside')
  @Around(givingUp)
  @Idempotent()
  outside(@InScenario() scenario: Scenario) {
    return new Query(scenario);
  }
}

describe.each(platforms)('a handler that returns a thenable on %s', (platform) => {
  const app = useServer(() =>
    startApp({ platform, store: slowStore(), controllers: [ThenableController] }),
  );

  it('ends when the thenable settles: its value is the response, and is replayed', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/plain');
    await scenario.started.reached(1);
    expectProblem(await scenario.post('/plain'), 'in-progress');
    scenario.gate.open();
    const first = await pending.response;
    expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
    expectReplay(await scenario.post('/plain'), first);
    expect(scenario.executions).toBe(1);
  });

  it('fails when the thenable rejects: the key is free', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail'];
    expect(await scenario.post('/plain')).toMatchObject({ status: 500 });
    expect(await scenario.post('/plain')).toMatchObject({ status: 201, json: { execution: 2 } });
  });

  it.each(['/inside', '/outside'])(
    'keeps its key when an interceptor times out, and never runs concurrently with itself: %s',
    async (path) => {
      const scenario = app.scenario();
      scenario.gate.close();
      scenario.timeout.close();
      const pending = scenario.start('POST', path);
      await scenario.started.reached(1);
      scenario.timeout.open();
      expect(await pending.response).toMatchObject({ status: 503, replayed: false });
      scenario.timeout.close();
      expectProblem(await scenario.post(path), 'in-progress');
      expect(scenario.executions).toBe(1);
      scenario.gate.open();
      let response = await scenario.post(path);
      while (response.json.code === 'idempotency_in_progress') response = await scenario.post(path);
      expectProblem(response, 'response-not-kept');
      expect(scenario.executions).toBe(1);
    },
  );
});

@Controller()
class KeysController {
  @Post('things')
  @Idempotent()
  async create(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }
}

describe.each(platforms)('the octets of a key on %s', (platform) => {
  const app = useServer(() =>
    startApp({ platform, store: memoryStore(), controllers: [KeysController] }),
  );

  // 0xA0 is white space to String.prototype.trim(), but not to HTTP.
  it.each(['80', '85', 'a0', 'ff'])(
    'C14 above 0x7E are rejected in any position: 0x%s',
    async (octet) => {
      const char = String.fromCharCode(parseInt(octet, 16));
      for (const key of [`k${char}`, `${char}k`, `k${char}k`, `"k"${char}`, `${char}"k"`, char]) {
        const scenario = app.scenario();
        expectProblem(await scenario.post('/things', { key }), 'key-invalid');
        expect(scenario.executions).toBe(0);
      }
    },
  );

  it('C16 white space around the value is ignored', async () => {
    const scenario = app.scenario();
    const { key: own } = scenario;
    for (const key of [` ${own}`, `${own} `, `\t${own}\t`, `  "${own}"  `]) {
      expect((await scenario.post('/things', { key })).status).toBe(201);
    }
    expect(scenario.executions).toBe(1);
  });
});
