import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Controller, Injectable, Post } from '@nestjs/common';
import {
  ClientProxyFactory,
  MessagePattern,
  Payload,
  Transport,
  type MicroserviceOptions,
} from '@nestjs/microservices';
import { firstValueFrom } from 'rxjs';
import {
  IdempotencyContext,
  IdempotencyOptionsError,
  IdempotencyReconciler,
  IdempotencyService,
  Idempotent,
  requireIdempotencyContext,
  type Recover,
} from 'nestjs-idempotency';
import { memoryStore, type MemoryIdempotencyStore } from 'nestjs-idempotency/memory';
import { abandon, LEASE_MS } from '../../support/engine/abandon.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import { freePort } from '../../support/servers/free-port.js';
import { startApp } from '../../support/http/start-app.js';
import { callingApp, rejection, type CallingApp } from '../../support/nest/calling-app.js';

const OPERATION = 'payments.charge';

/** Records the idempotency keys that the payment provider received. */
@Injectable()
class Provider {
  readonly keys: string[] = [];
  isDown = false;

  async charge(key: string) {
    this.keys.push(key);
    return this.isDown ? Promise.reject(new Error('planned: down')) : Promise.resolve('charged');
  }
}

/** Asks the provider for the charge, and finds none. */
const lookUpAndRun: Recover = async ({ downstreamKey }, services) => {
  await services.get(Provider).charge(downstreamKey('stripe'));
  return 'run' as const;
};

@Injectable()
class Payments {
  constructor(private readonly provider: Provider) {}

  @Idempotent({
    operation: OPERATION,
    key: (id: string) => id,
    scope: () => 'alice',
    lease: { durationMs: LEASE_MS, onTakeover: lookUpAndRun },
  })
  async charge(_id: string) {
    return this.provider.charge(requireIdempotencyContext().downstreamKey('stripe'));
  }
}

let now: number;
let records: MemoryIdempotencyStore;
let store: FaultyStore;
let app: CallingApp;
let service: IdempotencyService;
let provider: Provider;

beforeEach(async () => {
  now = Date.UTC(2026, 0, 1);
  records = memoryStore({ now: () => now });
  store = new FaultyStore(records);
  const options = { store, storeErrors: { whenUnavailable: 'execute' } } as const;
  app = await callingApp({ providers: [Payments, Provider] }, options);
  service = app.nest.get(IdempotencyService, { strict: false });
  provider = app.nest.get(Provider);
});
afterEach(() => app.nest.close());

/** The downstream key in a call of an operation. */
const keyOf = (call: { operation?: string; key?: string; scope?: string | string[] }, name = 's') =>
  service.run(
    { operation: OPERATION, key: 'k', scope: 'alice', ...call, outcome: () => false },
    (context) => context.downstreamKey(name),
  );

describe('a downstream key', () => {
  it('is a fixed string of 43 base64url characters', async () => {
    const key = await keyOf({}, 'stripe/charge');
    expect(key).toBe('NoNreHIuhXalLAxjccik6rvyefnjuepJoGiLfX6oZ4I');
    expect(key).toMatch(/^[\w-]{43}$/);
  });

  it('differs for another name, key, scope or operation', async () => {
    const keys = [
      await keyOf({}),
      await keyOf({}, 't'),
      await keyOf({ key: 'l' }),
      await keyOf({ scope: 'bob' }),
      await keyOf({ scope: ['alice', 'k'] }),
      await keyOf({ operation: 'payments.refund' }),
      await keyOf({}, 'ks'),
    ];
    expect(new Set(keys).size).toBe(keys.length);
  });

  it.each([[''], [null], [7]])('requires a name: %p', async (name) => {
    const error = await rejection(keyOf({}, name as string));
    expect(error).toBeInstanceOf(IdempotencyOptionsError);
    expect(error.message).toMatch(/^downstreamKey\(\) was called in payments\.charge without/);
  });

  it('is the same on every attempt: after failures, and without the store', async () => {
    const id = randomUUID();
    provider.isDown = true;
    await expect(app.nest.get(Payments).charge(id)).rejects.toThrow('planned: down');
    store.next('begin', unavailable);
    await expect(app.nest.get(Payments).charge(id)).rejects.toThrow('planned: down');
    provider.isDown = false;
    await app.nest.get(Payments).charge(id);
    expect(app.events.map(({ type }) => type)).toContain('unprotected');
    expect(provider.keys).toHaveLength(3);
    expect(new Set(provider.keys).size).toBe(1);
  });

  it('is the same for a takeover and for its onTakeover', async () => {
    const { key } = await abandon(records, OPERATION);
    now += LEASE_MS;
    await app.nest.get(Payments).charge(key);
    expect(provider.keys).toHaveLength(2);
    expect(new Set(provider.keys).size).toBe(1);
  });

  it('is the same for the reconciler', async () => {
    const { key } = await abandon(records, OPERATION);
    now += LEASE_MS + 300_000;
    await app.nest.get(IdempotencyReconciler, { strict: false }).reconcile();
    expect(provider.keys).toEqual([await keyOf({ key }, 'stripe')]);
  });
});

describe('downstreamKey() is available', () => {
  it('in a route and in a message pattern', async () => {
    @Controller()
    class Orders {
      @Post('orders')
      @Idempotent({ operation: 'orders.http', caller: { scope: () => 'alice' } })
      post(@IdempotencyContext() context: IdempotencyContext) {
        return { key: context.downstreamKey('s') };
      }

      @MessagePattern('orders')
      @Idempotent({
        operation: 'orders.message',
        message: { consumer: 'billing' },
        key: (context) => context.switchToRpc().getData<{ id: string }>().id,
      })
      handle(@Payload() _order: unknown, @IdempotencyContext() context: IdempotencyContext) {
        return context.downstreamKey('s');
      }
    }
    const transport = { host: '127.0.0.1', port: await freePort() };
    const http = await startApp({
      platform: 'express',
      controllers: [Orders],
      store: memoryStore(),
      configure: (nest) =>
        nest.connectMicroservice<MicroserviceOptions>({
          transport: Transport.TCP,
          options: transport,
        }),
    });
    await http.nest.startAllMicroservices();
    const scenario = http.scenario();
    const response = await scenario.post('/orders');
    const { key } = scenario;
    expect(response.json).toEqual({ key: await keyOf({ operation: 'orders.http', key }) });

    const client = ClientProxyFactory.create({ transport: Transport.TCP, options: transport });
    const reply = await firstValueFrom(client.send<string>('orders', { id: key }));
    const call = { operation: 'orders.message', scope: 'billing', key };
    expect(reply).toBe(await keyOf(call));
    await client.close();
    await http.close();
  });
});
