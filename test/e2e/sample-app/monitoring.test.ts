import { randomUUID } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { ApiProcess } from '../../../sample-app/demo/processes/api-process.js';
import { RedisNode } from '../../support/redis/redis-node.js';
import { useServer } from '../../support/servers/use-server.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';
import { until } from '../../support/waiting/until.js';

const HANGS = 9999;
const BODY = randomUUID();
const NO_REQUESTS = { executed: 0, replayed: 0, in_progress: 0, mismatch: 0 };
const IDLE = { running: 0, waiting: 0, takeovers: 0 };

describe('what an operator of the sample app sees', () => {
  const redis = useServer(() => RedisNode.start());
  const [express, fastify] = (['express', 'fastify'] as const).map((PLATFORM) =>
    useServer(
      async () => {
        const settings = {
          STORE: 'redis',
          REDIS_URL: redis.url,
          LEDGER_FILE: `${redis.dir}/ledger.jsonl`,
          PLATFORM,
          PROVIDER_DELAY_MS: '20',
          LEASE_MS: '1000',
          MAX_EXECUTION_MS: '2000',
        };
        const api = new ApiProcess(settings, typescriptNodeOptions);
        await api.untilListening();
        return api;
      },
      (api) => api.kill(),
    ),
  ) as [ApiProcess, ApiProcess];
  const apis = [express, fastify];

  async function pay(api: ApiProcess, key: string, amount = 4999): Promise<number | undefined> {
    const response = await fetch(`${api.url}/payments`, {
      method: 'POST',
      headers: {
        authorization: 'Bearer alice-demo-token',
        'idempotency-key': key,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ amount, currency: 'EUR', description: BODY }),
    }).catch(() => undefined);
    await response?.arrayBuffer();
    return response?.status;
  }

  async function get(api: ApiProcess, path: string) {
    const response = await fetch(api.url + path);
    return { status: response.status, document: (await response.json()) as any };
  }

  const activity = async (api: ApiProcess) => (await get(api, '/activity')).document;
  const ready = (api: ApiProcess) => get(api, '/health/ready');

  it('counts requests by result, in each process its own', async () => {
    const key = randomUUID();
    expect(await pay(express, key)).toBe(201);
    expect(await pay(express, key)).toBe(201);
    expect(await pay(express, key, 1)).toBe(422);
    expect(await pay(fastify, key)).toBe(201);
    expect(await activity(express)).toEqual({
      requests: { ...NO_REQUESTS, executed: 1, replayed: 1, mismatch: 1 },
      ...IDLE,
    });
    expect(await activity(fastify)).toEqual({
      requests: { ...NO_REQUESTS, replayed: 1 },
      ...IDLE,
    });
  });

  it('is ready until Redis is gone, and again when it is back', async () => {
    const idempotency = { store: 'redis', running: 0, waiting: 0 };
    for (const api of apis) {
      expect(await ready(api)).toMatchObject({
        status: 200,
        document: { status: 'ok', info: { idempotency: { ...idempotency, status: 'up' } } },
      });
    }
    await redis.kill();
    for (const api of apis) {
      await until(async () => (await ready(api)).status === 503);
      const errorType = 'idempotency_store_unavailable';
      expect(await ready(api)).toMatchObject({
        status: 503,
        document: { error: { idempotency: { ...idempotency, status: 'down', errorType } } },
      });
      expect((await fetch(`${api.url}/health/live`)).status).toBe(200);
    }
    await redis.start();
    for (const api of apis) await until(async () => (await ready(api)).status === 200);
  });

  it('shows a running attempt, and its takeover by another process when the first one died', async () => {
    const key = randomUUID();
    const lost = pay(express, key, HANGS);
    await until(async () => (await activity(express)).running === 1);
    await express.kill();
    expect(await lost).toBeUndefined();
    // In progress until the lease expires; then the second attempt hangs, too.
    await until(async () => (await pay(fastify, key, HANGS)) === 504);
    expect(await activity(fastify)).toMatchObject({ ...IDLE, takeovers: 1 });
  });
});
