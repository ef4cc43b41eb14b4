import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { redisStore, type RedisIdempotencyStore } from 'nestjs-idempotency/redis';
import { RedisProxy } from '../../support/redis-proxy.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { until } from '../redis/support/until.js';
import { inWords, newClaim, success, Worker } from './support/worker.js';

let redis: RedisServer;
let proxy: RedisProxy;
let client: Redis;
let store: RedisIdempotencyStore;

beforeAll(async () => {
  redis = await startRedis();
  proxy = await RedisProxy.start(redis.port);
  client = new Redis(redis.url);
  store = redisStore({ url: proxy.url, onConnectionError: () => undefined });
});

afterAll(async () => {
  await store.close();
  client.disconnect();
  await proxy.stop();
  await redis.stop();
});

describe('over a connection that loses a reply', () => {
  const PATIENT = { commandTimeoutMs: 5_000, saveTimeoutMs: 5_000 };

  it('of begin, the attempt runs all the same, as the one that it is', async () => {
    const worker = new Worker(store);
    await worker.run(newClaim(PATIENT));
    proxy.aim('begin', 'lose the reply');
    const request = newClaim(PATIENT);
    const attempt = await worker.run(request);
    expect(attempt).toMatchObject({ number: 1, isTakeover: false });
    expect(await attempt.complete(success('paid'))).toEqual({ kind: 'own' });
    expect(worker.told).toEqual(['acquired', 'acquired', 'completed']);
    expect(inWords(await worker.begin(request))).toMatchObject({ outcome: 'paid' });
  });

  it('of complete, the outcome is stored once, and the answer is the own one', async () => {
    const worker = new Worker(store);
    const request = newClaim(PATIENT);
    const attempt = await worker.run(request);
    proxy.aim('complete', 'lose the reply');
    expect(await attempt.complete(success('paid'))).toEqual({ kind: 'own' });
    expect(worker.told).toEqual(['acquired', 'completed']);
    expect(inWords(await worker.begin(request))).toMatchObject({ outcome: 'paid' });
  });

  it('of release, the key is free', async () => {
    const worker = new Worker(store);
    const request = newClaim(PATIENT);
    const attempt = await worker.run(request);
    proxy.aim('release', 'lose the reply');
    await attempt.release();
    expect(worker.told).toEqual(['acquired', 'released']);
    expect(await worker.run(request)).toMatchObject({ number: 2 });
  });
});

describe('where other data stands under the key', () => {
  it('nothing runs, not even when the route fails open', async () => {
    const worker = new Worker(store);
    const request = newClaim({ onStoreUnavailable: 'execute' });
    await client.rpush(`idem:1:${request.recordKey}`, 'not', 'a', 'record');
    expect(await worker.begin(request)).toEqual({ kind: 'reject', reason: 'store_unavailable' });
    expect(worker.events).toMatchObject([
      { type: 'store_unavailable', error: { code: 'idempotency_store_misconfigured' } },
      { type: 'rejected', reason: 'store_unavailable' },
    ]);
    expect(await client.lrange(`idem:1:${request.recordKey}`, 0, -1)).toEqual([
      'not',
      'a',
      'record',
    ]);
  });
});

describe('where the data was flushed', () => {
  it('the heartbeat notices, the outcome is written back, and the loss is told once', async () => {
    const worker = new Worker(store);
    const request = newClaim({ leaseMs: 900 });
    const attempt = await worker.run(request);
    const { signal } = attempt;
    await client.flushall();
    await until(() => signal.aborted);
    expect(signal.reason).toBe('gone');
    expect(await attempt.complete(success('paid'))).toEqual({ kind: 'own' });
    expect(worker.told).toEqual(['acquired', 'lease_lost', 'record_lost', 'completed']);
    expect(inWords(await new Worker(store).begin(request))).toMatchObject({ outcome: 'paid' });
  });
});
