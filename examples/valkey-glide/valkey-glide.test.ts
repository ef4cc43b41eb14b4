import { afterAll, beforeAll, it } from '@jest/globals';
import { useRedis, useRedisClient } from '../../test/support/redis/use-redis.js';
import { useServer } from '../../test/support/servers/use-server.js';
import { expectOneCharge, startPayments } from '../support/charges.js';
import { idempotency } from './valkey.module.js';

const server = useRedis();
const admin = useRedisClient(server);
beforeAll(() => void (process.env.VALKEY_PORT = String(server.port)));
afterAll(() => {
  delete process.env.VALKEY_PORT;
});

const app = useServer(() => startPayments(idempotency));

it('A store on a client of GLIDE runs an operation once, among concurrent duplicates', async () => {
  await expectOneCharge(app, admin);
});
