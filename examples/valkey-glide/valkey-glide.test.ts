import type { AddressInfo } from 'node:net';
import { Controller, Module, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { useRedis, useRedisClient } from '../../test/support/redis/use-redis.js';
import { useServer } from '../../test/support/servers/use-server.js';
import { BearerGuard, post } from '../support/http-client.js';
import { idempotency } from './valkey.module.js';

const server = useRedis();
const admin = useRedisClient(server);
beforeAll(() => void (process.env.VALKEY_PORT = String(server.port)));
afterAll(() => {
  delete process.env.VALKEY_PORT;
});

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

@Module({ imports: [idempotency], controllers: [PaymentsController] })
class AppModule {}

const app = useServer(async () => {
  const nest = await NestFactory.create(AppModule, { logger: false, abortOnError: false });
  nest.useGlobalGuards(new BearerGuard());
  await nest.listen(0, '127.0.0.1');
  return nest;
});

it('A store on a client of GLIDE runs an operation once, among concurrent duplicates', async () => {
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
});
