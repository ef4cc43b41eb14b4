import 'reflect-metadata';
import { createHook } from 'node:async_hooks';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { Body, Controller, Module, Post, type CallHandler, type CanActivate } from '@nestjs/common';
import { APP_GUARD, NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { IdempotencyModule, Idempotent } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { serve } from '../../../test/support/processes/child.js';
import { Effects } from '../http/effects.js';
import { startAllocations, stopAllocations } from '../measuring/allocations.js';

/** Which application is counted. */
export interface CountedSetup {
  readonly redisUrl: string;
  /** Whether a global interceptor that changes nothing stands around each route. */
  readonly isBesideAnother: boolean;
  readonly fastPath: boolean;
}

const { redisUrl, isBesideAnother, fastPath } = JSON.parse(
  process.env.COUNTED_SETUP ?? '',
) as CountedSetup;
const effects = new Effects();
const ANSWER = { status: 'authorised', note: 'x'.repeat(165) };

@Controller()
class PaymentsController {
  @Post('bare')
  bare(@Body() _payment: object) {
    return ANSWER;
  }

  @Post('payments')
  @Idempotent()
  pay(@Body() _payment: object) {
    return ANSWER;
  }

  @Post('bare-held')
  async bareHeld(@Body() _payment: object) {
    await hold();
    return ANSWER;
  }

  @Post('held')
  @Idempotent()
  async held(@Body() _payment: object) {
    await hold();
    return ANSWER;
  }
}

function hold(): Promise<void> {
  effects.count += 1;
  return effects.untilReleased();
}

const guard: CanActivate = {
  canActivate: (context) => {
    context.switchToHttp().getRequest<{ user?: object }>().user = { id: 'user-1' };
    return true;
  },
};

@Module({
  imports: [
    IdempotencyModule.forRoot({
      service: 'bench',
      store: redisStore({ url: redisUrl }),
      storeErrors: { commandTimeout: 60_000 },
      http: { fastPath },
    }),
  ],
  controllers: [PaymentsController],
  providers: [{ provide: APP_GUARD, useValue: guard }],
})
class CountedModule {}

const app = await NestFactory.create(CountedModule, new FastifyAdapter(), { logger: ['error'] });
if (isBesideAnother) {
  app.useGlobalInterceptors({ intercept: (_, next: CallHandler) => next.handle() });
}
await app.listen(0, '127.0.0.1');
const server = app.getHttpServer() as Server;
// Its timer would count for some requests and not for others.
server.keepAliveTimeout = 0;

let promises = 0;
const counting = createHook({
  init: (_id, type) => {
    if (type === 'PROMISE') promises += 1;
  },
});
let arrivals: number[] = [];
server.prependListener('request', () => {
  if (promises > 0) arrivals.push(promises);
});

serve({
  port: () => (server.address() as AddressInfo).port,
  startAllocations,
  stopAllocations,
  startPromises: () => {
    promises = 1;
    counting.enable();
  },
  /** The promises that each request has created, but for the last. */
  stopPromises: () => {
    counting.disable();
    const counts = arrivals.slice(1).map((count, index) => count - (arrivals[index] ?? 0));
    [promises, arrivals] = [0, []];
    return counts;
  },
  /** Bytes in use, without any garbage. */
  heap: async () => {
    for (let i = 0; i < 3; i += 1) {
      globalThis.gc?.();
      await turn();
    }
    return process.memoryUsage().heapUsed;
  },
  effects: () => effects.count,
  release: () => effects.release(),
});
