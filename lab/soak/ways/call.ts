import { Injectable } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { IdempotencyService, Idempotent } from 'nestjs-idempotency';
import {
  addOperations,
  withShortTimeout,
  optionsOf,
  work,
  type Kind,
  type Order,
} from '../operations.js';
import type { Way, WaySettings } from '../setup.js';
import { appModule } from './start.js';

const atLeisure = ({ kind, amount }: Order) => {
  const working = work({ kind, amount });
  return kind === 'inner' ? withShortTimeout(working) : working;
};

@Injectable()
class Orders {}

addOperations(
  Orders,
  () => atLeisure,
  (kind) => {
    const { caller: _, ...options } = optionsOf(kind);
    const key = (order: Order) => order.key;
    const payload = ({ amount }: Order) => ({ amount });
    const own = { ...options, key, payload, scope: () => ['soak'] };
    return [Idempotent(own) as MethodDecorator];
  },
);

/** By the service, or by a decorated method, alternately. */
export async function byCalls(settings: WaySettings): Promise<Way> {
  const module = appModule(settings, { providers: [Orders] });
  const nest = await NestFactory.createApplicationContext(module, {
    logger: false,
    abortOnError: false,
  });
  const service = nest.get(IdempotencyService, { strict: false });
  const orders = nest.get<Orders, Record<Kind, (order: Order) => Promise<unknown>>>(Orders);
  let calls = 0;
  const call = (order: Order) => {
    calls += 1;
    const { kind, key, amount } = order;
    const { caller: _, ...options } = optionsOf(kind);
    const running =
      calls % 2 === 0
        ? orders[kind](order)
        : service.run(
            { ...options, operation: kind, key, scope: ['soak'], payload: { amount } },
            () => atLeisure(order),
          );
    return kind === 'outer' ? withShortTimeout(running) : running;
  };
  const send = async (order: Order) => {
    await call(order).catch(() => undefined);
  };
  // A call has no client that leaves: its caller stops waiting.
  return { nest, send, sendAndLeave: send, emitters: () => ({}) };
}
