import type { AddressInfo } from 'node:net';
import {
  Body,
  Controller,
  Module,
  Param,
  Post,
  type CanActivate,
  type ExceptionFilter,
  type ExecutionContext,
  type INestApplication,
  type ModuleMetadata,
  type Type,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import type { Redis } from 'ioredis';
import {
  IdempotencyModule,
  Idempotent,
  type IdempotencyStore,
  type Recover,
} from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import type { Platform } from '../../test/support/http/combinations.js';
import { Ledger, LEDGER, type Payment } from './ledger.js';

/** The routes before the switch: `protect` is the old library's decorator. */
export function oldPayments(path: string, protect: MethodDecorator): Type {
  @Controller(path)
  class OldPayments {
    constructor(private readonly ledger: Ledger) {}

    @Post()
    @protect
    pay(@Body() payment: Payment) {
      return this.ledger.charge(payment);
    }

    @Post(':order/refunds')
    @protect
    refund(@Param('order') order: string) {
      return this.ledger.charge({ order, amount: -1 });
    }
  }
  return OldPayments;
}

/** The planted mistake: the function for the old records is there, but first attempts do not call it. */
export function mistakenPayments(onTakeover: Recover): Type {
  @Controller('payments')
  class MistakenPayments {
    constructor(private readonly ledger: Ledger) {}

    @Post()
    @Idempotent({ lease: { onTakeover, recoverOn: 'takeover' } })
    pay(@Body() payment: Payment) {
      return this.ledger.charge(payment);
    }
  }
  return MistakenPayments;
}

export interface PaymentsApp extends Pick<ModuleMetadata, 'controllers' | 'imports' | 'providers'> {
  /** Of the ledger, and of the old records. */
  readonly redis: Redis;
  readonly platform: Platform;
  /** @defaultValue on that Redis */
  readonly store?: IdempotencyStore;
  readonly filters?: readonly Type<ExceptionFilter>[];
}

@Module({})
class AppModule {}

/** All requests are of one user: the old libraries know none. */
class AliceOnly implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    context.switchToHttp().getRequest<{ user?: object }>().user = { id: 'alice' };
    return true;
  }
}

/** @returns the application, and its URL. */
export async function startPayments(start: PaymentsApp): Promise<[INestApplication, string]> {
  const { redis, platform, controllers = [], imports = [], providers = [], filters = [] } = start;
  const { store = redisStore({ client: redis }) } = start;
  const module = {
    module: AppModule,
    imports: [
      IdempotencyModule.forRoot({
        service: 'shop',
        store,
        storeErrors: { commandTimeout: '5s', saveTimeout: '5s' },
      }),
      ...imports,
    ],
    controllers,
    providers: [Ledger, { provide: LEDGER, useValue: redis }, ...providers],
  };
  const adapter = platform === 'express' ? new ExpressAdapter() : new FastifyAdapter();
  const app = await NestFactory.create(module, adapter, { logger: false, abortOnError: false });
  app.useGlobalGuards(new AliceOnly());
  app.useGlobalFilters(...filters.map((Filter) => new Filter(app.getHttpAdapter())));
  app.enableShutdownHooks();
  await app.listen(0, '127.0.0.1');
  return [app, `http://127.0.0.1:${(app.getHttpServer().address() as AddressInfo).port}`];
}
