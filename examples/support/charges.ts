import type { AddressInfo } from 'node:net';
import {
  Controller,
  Module,
  Post,
  type DynamicModule,
  type INestApplication,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { expect } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { BearerGuard, post } from './http-client.js';

let charges = 0;

@Controller('payments')
class PaymentsController {
  @Post()
  @Idempotent({ duplicates: 'wait' })
  async charge() {
    charges += 1;
    return { charges };
  }
}

@Module({})
class AppModule {}

/** An application that charges, with the module of an example. */
export async function startPayments(idempotency: DynamicModule): Promise<INestApplication> {
  const module = { module: AppModule, imports: [idempotency], controllers: [PaymentsController] };
  const nest = await NestFactory.create(module, { logger: false, abortOnError: false });
  nest.useGlobalGuards(new BearerGuard());
  await nest.listen(0, '127.0.0.1');
  return nest;
}

/** Sends a payment three times at once. @param admin - of the server that has the records. */
export async function expectOneCharge(
  app: INestApplication,
  admin: { keys(pattern: string): Promise<string[]> },
): Promise<void> {
  const { port } = app.getHttpServer().address() as AddressInfo;
  const sent = { key: 'payment-1', as: { id: 'alice' } };
  const responses = await Promise.all([1, 2, 3].map(() => post(port, '/payments', sent)));
  expect(responses.map(({ status, body }) => [status, body])).toEqual(
    responses.map(() => [201, { charges: 1 }]),
  );
  expect(responses.filter(({ replayed }) => replayed)).toHaveLength(2);
  // 43 characters: the digest of a request.
  const records = await admin.keys(`*:${'?'.repeat(43)}`);
  expect([charges, records.length]).toEqual([1, 1]);
}
