import 'reflect-metadata';
import type { AddressInfo } from 'node:net';
import { Injectable, Module, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { APP_GUARD, NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { serve } from '../../../test/support/processes/child.js';
import { startAllocations, stopAllocations } from '../measuring/allocations.js';
import type { ServerSetup, ServerState } from '../protocol.js';
import { entryOf } from './contenders.js';
import { controllerOf } from './controller.js';
import { Effects } from './effects.js';

/** An application knows its callers; who they are costs every contender the same. */
@Injectable()
class CallerGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    context.switchToHttp().getRequest<{ user?: object }>().user = { id: 'user-1' };
    return true;
  }
}

const setup = JSON.parse(process.env.BENCH_SERVER ?? '') as ServerSetup;
const effects = new Effects();
const contender = await entryOf(setup.contender).open(setup);

@Module({
  imports: [...(contender.modules ?? [])],
  controllers: [controllerOf(contender, effects)],
  providers: [{ provide: APP_GUARD, useClass: CallerGuard }],
})
class BenchModule {}

const adapter = setup.platform === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
const app = await NestFactory.create(BenchModule, adapter, { logger: ['error'] });
await contender.configure?.(app);
await app.listen(0, '127.0.0.1');

serve({
  url: () => `http://127.0.0.1:${(app.getHttpServer().address() as AddressInfo).port}`,
  state: (): ServerState => {
    const { user, system } = process.cpuUsage();
    return { cpuUs: user + system, effects: effects.count };
  },
  release: () => effects.release(),
  renew: () => contender.renew?.(),
  startAllocations,
  stopAllocations,
});
