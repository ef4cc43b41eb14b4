import 'reflect-metadata';
import { Redis } from 'ioredis';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import { createApp } from './create-app.js';
import { FaultyStore } from '../../support/faulty-store.js';
import { Traces } from './traces.js';

// PLATFORM=express|fastify STORE=memory|redis [REDIS_URL=…] [PORT=…] node main.js
const { PLATFORM = 'express', STORE = 'memory', REDIS_URL = '', PORT = '0' } = process.env;

const redis = STORE === 'redis' ? new Redis(REDIS_URL) : undefined;
const store = new FaultyStore(redis === undefined ? memoryStore() : redisStore({ client: redis }));
const traces = new Traces(async () => (await redis?.keys('*')) ?? []);
const app = await createApp({
  platform: PLATFORM === 'fastify' ? 'fastify' : 'express',
  store,
  traces,
});
await app.listen(Number(PORT), '127.0.0.1');
console.log(`listening on ${await app.getUrl()}`);

// Started with a channel to its parent, the process does not outlive it.
process.once('disconnect', () => process.exit());
process.once('SIGTERM', () => {
  void app.close().finally(() => redis?.disconnect());
});
