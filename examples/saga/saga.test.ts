import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, it } from '@jest/globals';
import { redisStore } from 'nestjs-idempotency/redis';
import { callingApp, type CallingApp } from '../../test/support/nest/calling-app.js';
import { TalkingProcess } from '../../test/support/processes/talking-process.js';
import { useRedis, useRedisClient } from '../../test/support/redis/use-redis.js';
import {
  callsOf,
  effectsOf,
  ListedServices,
  MODULE_OPTIONS,
  type ServiceSettings,
  type StopsAt,
} from './listed-services.js';
import { OrderSaga } from './order.saga.js';
import type { Order } from './services.js';

const redis = useRedis();
const ledger = useRedisClient(redis);
let apps: CallingApp[] = [];
let crashed: TalkingProcess<object> | undefined;
afterEach(async () => {
  await crashed?.kill();
  await Promise.all(apps.map(({ nest }) => nest.close()));
  apps = [];
});

const newOrder = (): Order => ({ id: randomUUID(), amount: 4999 });

/** A saga in an application of its own. */
async function saga(
  services: Partial<ServiceSettings> = {},
  reached?: (place: StopsAt) => Promise<void>,
): Promise<OrderSaga> {
  const settings = { rejects: 'nothing', keys: 'honoured', ...services } as const;
  const { providers } = new ListedServices(ledger, settings, reached);
  const options = { store: redisStore({ url: redis.url }), ...MODULE_OPTIONS };
  const app = await callingApp({ providers: [OrderSaga, ...providers] }, options);
  apps.push(app);
  return app.nest.get(OrderSaga, { strict: false });
}

/** Runs a saga in a process that is killed at `stopsAt`. */
async function crash(order: Order, stopsAt: StopsAt, services: ServiceSettings): Promise<void> {
  const settings = { redisUrl: redis.url, order, stopsAt, services };
  crashed = new TalkingProcess(new URL('saga.process.ts', import.meta.url), settings);
  expect(await crashed.next()).toEqual({ stopped: stopsAt });
  await crashed.kill();
}

const WAYS = {
  nothing: { effects: ['reserve', 'charge', 'ship'], end: 'placed' },
  charge: { effects: ['reserve', 'release'], end: 'cancelled' },
  ship: { effects: ['reserve', 'charge', 'refund', 'release'], end: 'cancelled' },
} as const;

describe.each(Object.entries(WAYS))('A saga in which %s is refused', (rejects, way) => {
  const services = { rejects: rejects as keyof typeof WAYS };

  it('has each effect once, also when it is run again, and twice at a time', async () => {
    const order = newOrder();
    const [one, other] = [await saga(services), await saga(services)];
    const ends = await Promise.all([one.run(order), other.run(order)]);
    expect([...ends, await one.run(order)]).toEqual([way.end, way.end, way.end]);
    expect(await effectsOf(ledger, order)).toEqual(way.effects);
    const calls = await callsOf(ledger, order);
    expect(new Set(calls).size).toBe(calls.length);
  });
});

it('A saga keeps its way though the bank would decide otherwise by now', async () => {
  const order = newOrder();
  const stops = (place: StopsAt) =>
    place === 'before release'
      ? Promise.reject(new Error('planned: the stock service is down'))
      : Promise.resolve();
  await expect((await saga({ rejects: 'charge' }, stops)).run(order)).rejects.toThrow('planned');
  expect(await (await saga({ rejects: 'nothing' })).run(order)).toBe('cancelled');
  expect(await effectsOf(ledger, order)).toEqual(WAYS.charge.effects);
});

/** The way through all steps but the last of an order that is shipped. */
const EVERY_PLACE = (['reserve', 'charge', 'ship', 'refund', 'release'] as const).flatMap(
  (step) => [`before ${step}`, `after ${step}`] as const,
);

describe('A saga that is interrupted', () => {
  it.each(EVERY_PLACE)(
    'by the death of its process %s has each effect once after the next run',
    async (stopsAt) => {
      const services = { rejects: 'ship', keys: 'honoured' } as const;
      const order = newOrder();
      await crash(order, stopsAt, services);
      expect(await (await saga(services)).run(order)).toBe('cancelled');
      expect(await effectsOf(ledger, order)).toEqual(WAYS.ship.effects);
      // Steps that were stored are not called again; the one in which the process died may be.
      const calls = await callsOf(ledger, order);
      const [moment, step] = stopsAt.split(' ');
      expect(calls.filter((call) => call === step)).toHaveLength(moment === 'after' ? 2 : 1);
      expect(new Set(calls).size).toBe(calls.length - (moment === 'after' ? 1 : 0));
    },
    180_000,
  );

  it('has an effect twice if a service ignores the key: the guide warns of it', async () => {
    const services = { rejects: 'nothing', keys: 'ignored' } as const;
    const order = newOrder();
    const fails = (place: StopsAt) =>
      place === 'after charge'
        ? Promise.reject(new Error('planned: the response is lost'))
        : Promise.resolve();
    await expect((await saga(services, fails)).run(order)).rejects.toThrow('planned');
    await (await saga(services)).run(order);
    expect(await effectsOf(ledger, order)).toEqual(['reserve', 'charge', 'charge', 'ship']);
  });
});
