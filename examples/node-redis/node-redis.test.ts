import { afterAll, beforeAll, it } from '@jest/globals';
import { useRedis, useRedisClient } from '../../test/support/redis/use-redis.js';
import { useServer } from '../../test/support/servers/use-server.js';
import { expectOneCharge, startPayments } from '../support/charges.js';
import { idempotency } from './redis.module.js';

const server = useRedis();
const admin = useRedisClient(server);
beforeAll(() => void (process.env.REDIS_URL = server.url));
afterAll(() => {
  delete process.env.REDIS_URL;
});

const app = useServer(() => startPayments(idempotency));

it('A store on a client of node-redis runs an operation once, among concurrent duplicates', async () => {
  await expectOneCharge(app, admin);
});
