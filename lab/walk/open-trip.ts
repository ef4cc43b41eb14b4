import { randomUUID } from 'node:crypto';
import { Controller, Module, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { EventPattern } from '@nestjs/microservices';
import { ExpressAdapter } from '@nestjs/platform-express';
import {
  IdempotencyModule,
  IdempotencyService,
  Idempotent,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { startConsumer } from '../../test/e2e/messages/support/start-consumer.js';
import { TestQueue } from '../../test/e2e/messages/support/test-queue.js';
import { SERVICE } from '../../test/support/stores/named-for.js';
import type { Setup, Trip, TripName } from './trip.js';

type Go = Trip['go'];

const OPENERS: Readonly<Record<TripName, (setup: Setup) => Promise<Go>>> = {
  'first POST': async (setup) => {
    const url = await listen(setup);
    return () => post(url, randomUUID());
  },
  // The first request of the warm-up is the one that the others replay.
  replay: async (setup) => {
    const url = await listen(setup);
    const key = randomUUID();
    return () => post(url, key);
  },
  message: async ({ redisUrl, broker }) => {
    const queue = await TestQueue.open(broker, { durable: false });
    await startConsumer(queue.transport(), {
      controllers: [Orders],
      options: optionsFor(redisUrl),
    });
    return async () => {
      await queue.emit('order.placed', { amount: 1 }, { messageId: randomUUID() });
      await queue.isEmpty();
    };
  },
  call: async (setup) => {
    const app = await NestFactory.createApplicationContext(applicationOf(setup), { logger: false });
    const service = app.get(IdempotencyService);
    return async () => {
      const call = { operation: 'capture', scope: 'acme', payload: { amount: 1 } };
      await service.run({ ...call, key: randomUUID() }, work);
    };
  },
};

let executions = 0;

export async function openTrip(setup: Setup): Promise<Trip> {
  return { go: await OPENERS[setup.trip](setup), executions: () => executions };
}

function work(): { status: string } {
  executions += 1;
  return { status: 'captured' };
}

@Controller()
class Orders {
  @Post('orders')
  @Idempotent()
  pay() {
    return work();
  }

  @EventPattern(['order.placed'])
  @Idempotent({ message: { consumer: 'billing' } })
  place() {
    return work();
  }
}

function optionsFor(redisUrl: string): IdempotencyModuleOptions {
  return {
    service: SERVICE,
    store: redisStore({ url: redisUrl }),
    caller: { anonymous: 'shared' },
    storeErrors: { commandTimeout: 10_000 },
  };
}

function applicationOf({ redisUrl }: Setup) {
  @Module({ imports: [IdempotencyModule.forRoot(optionsFor(redisUrl))], controllers: [Orders] })
  class AppModule {}
  return AppModule;
}

async function listen(setup: Setup): Promise<string> {
  const app = await NestFactory.create(applicationOf(setup), new ExpressAdapter(), {
    logger: false,
  });
  await app.listen(0, '127.0.0.1');
  return app.getUrl();
}

async function post(url: string, key: string): Promise<void> {
  const response = await fetch(`${url}/orders`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': key },
    body: '{"amount":1}',
  });
  const body = await response.text();
  if (response.status !== 201) throw new Error(`answered ${response.status}: ${body}`);
}
