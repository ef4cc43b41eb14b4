import type { AddressInfo } from 'node:net';
import { Body, Controller, Headers, Inject, Module, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  IdempotencyContext,
  IdempotencyModule,
  IdempotencyTransaction,
  Idempotent,
} from 'nestjs-idempotency';
import { mysqlStore } from 'nestjs-idempotency/mysql';
import { postgresStore } from 'nestjs-idempotency/postgres';
import type { UnitOfWork } from 'nestjs-idempotency/transactions';
import { SERVICE } from '../../../support/stores/named-for.js';

/** A library, as the handler and the module use it. */
export interface OpenedLibrary {
  readonly unitOfWork: UnitOfWork;
  readonly insert: (transaction: never, id: string) => Promise<unknown>;
}

export function isOnMysql(url: string): boolean {
  return url.startsWith('mysql:');
}

const OPENED = Symbol('the opened unit of work');

/** What the handler does after its write. */
export type Plan = 'answer' | 'fail' | 'hang';

/** The longest wait of a retry for a dead process. No other lease expires: its transaction holds the record. */
const LEASE_MS = 2_000;

@Controller('effects')
class EffectsController {
  constructor(@Inject(OPENED) private readonly opened: OpenedLibrary) {}

  @Post()
  @Idempotent({ transaction: true })
  async create(
    @Body() { id }: { id: string },
    @Headers('x-plan') plan: Plan,
    @IdempotencyTransaction() transaction: never,
    @IdempotencyContext() { attempt, isTakeover }: IdempotencyContext,
  ) {
    await this.opened.insert(transaction, id);
    if (plan === 'fail') throw new Error('as planned');
    if (plan === 'hang') {
      process.send?.({ written: id });
      await new Promise(() => undefined);
    }
    return { id, attempt, isTakeover };
  }
}

@Module({})
class AppModule {}

/** @returns the port on which it listens. */
export async function startEffectsApp(url: string, opened: OpenedLibrary): Promise<number> {
  const module = {
    module: AppModule,
    imports: [
      IdempotencyModule.forRoot({
        service: SERVICE,
        store: isOnMysql(url) ? mysqlStore({ url }) : postgresStore({ url }),
        unitOfWork: opened.unitOfWork,
        caller: { scope: () => 'all-callers' },
        lease: { duration: LEASE_MS },
        // A machine that is busy with other tests must not look like a server that is down.
        storeErrors: { commandTimeout: 10_000, saveTimeout: 10_000 },
      }),
    ],
    controllers: [EffectsController],
    providers: [{ provide: OPENED, useValue: opened }],
  };
  const app = await NestFactory.create(module, { logger: false, abortOnError: false });
  await app.listen(0, '127.0.0.1');
  return (app.getHttpServer() as { address(): AddressInfo }).address().port;
}
