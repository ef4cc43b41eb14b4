import { Module, type INestApplicationContext } from '@nestjs/common';
import { ConfigModule } from '@nestjs/config';
import { NestFactory } from '@nestjs/core';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { IdempotencyMeter, IdempotencyService } from 'nestjs-idempotency';
import { useRedis, useRedisClient } from '../../test/support/redis/use-redis.js';
import { useServer } from '../../test/support/servers/use-server.js';
import { Gate } from '../../test/support/waiting/gate.js';
import { until } from '../../test/support/waiting/until.js';
import * as forRoot from './for-root.js';
import * as forRootAsync from './for-root-async.js';

const redis = useRedis();
const client = useRedisClient(redis);
beforeAll(() => void (process.env.REDIS_URL = redis.url));
afterAll(() => {
  delete process.env.REDIS_URL;
});

/** As a file would have it. */
const idempotency = { lease: { duration: '30s' }, duplicates: 'wait' };

@Module({})
class AppModule {}

describe.each([
  ['forRoot()', forRoot],
  ['forRootAsync()', forRootAsync],
])('The options of %s', (name, example) => {
  const app: INestApplicationContext = useServer(() => {
    const config = ConfigModule.forRoot({ isGlobal: true, load: [() => ({ idempotency })] });
    const module = { module: AppModule, imports: [config, example.idempotency()] };
    return NestFactory.createApplicationContext(module, { logger: false, abortOnError: false });
  });

  it('are those of the operation', async () => {
    const gate = Gate.closed();
    let runs = 0;
    const run = () =>
      app.get(IdempotencyService).run({ operation: 'pay', key: name, scope: 'alice' }, async () => {
        runs += 1;
        await gate.pass();
        return runs;
      });
    const first = run();
    await until(() => runs === 1);
    // 43 characters: the digest of a request.
    const [key = ''] = await client.keys(`*:${'?'.repeat(43)}`);
    // In the record of an attempt in progress, the lease's length follows the time of its start.
    expect(await client.get(key)).toMatch(/ 30000 /);
    const duplicate = run();
    // By default it would be rejected.
    await until(() => app.get(IdempotencyMeter).read().operations.get('pay')?.waiting === 1);
    gate.open();
    expect(await Promise.all([first, duplicate])).toEqual([1, 1]);
    await client.flushall();
  });
});
