import { randomUUID } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { ApiProcess } from '../../../sample-app/demo/processes/api-process.js';
import { RedisNode } from '../../support/redis/redis-node.js';
import { useServer } from '../../support/servers/use-server.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';
import { until } from '../../support/waiting/until.js';

const HANGS = 9999;
const BODY = randomUUID();
const OF_PAYMENTS = 'idempotency_operation_name="payments.create"';
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
          LEASE: '1s',
          MAX_EXECUTION: '2s',
        };
        const api = new ApiProcess(settings, typescriptNodeOptions);
        await api.untilListening();
        return api;
      },
      (api) => api.kill(),
    ),
  ) as [ApiProcess, ApiProcess];
  const apis = [express, fastify];

  const keys: string[] = [];
  function newKey(): string {
    const key = randomUUID();
    keys.push(key);
    return key;
  }

  async function pay(api: ApiProcess, key: string, amount = 4999): Promise<number> {
    const response = await fetch(`${api.url}/payments`, {
      method: 'POST',
      headers: {
        authorization: 'Bearer alice-demo-token',
        'idempotency-key': key,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ amount, currency: 'EUR', description: BODY }),
    });
    await response.arrayBuffer();
    return response.status;
  }

  /** What a route shows without a token: never a key, a caller or a body. */
  async function get(api: ApiProcess, path: string) {
    const response = await fetch(api.url + path);
    const text = await response.text();
    for (const secret of [...keys, BODY, 'alice']) expect(text).not.toContain(secret);
    return { status: response.status, type: response.headers.get('content-type'), text };
  }

  async function ready(api: ApiProcess) {
    const { status, text } = await get(api, '/health/ready');
    return { status, document: JSON.parse(text) };
  }

  async function activity(api: ApiProcess) {
    const { status, text } = await get(api, '/activity');
    expect(status).toBe(200);
    return JSON.parse(text);
  }

  /** The samples of a scrape, by name and labels. */
  async function metrics(api: ApiProcess): Promise<Record<string, number>> {
    const { status, type, text } = await get(api, '/metrics');
    expect([status, type]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8']);
    const lines = text.split('\n').filter((line) => !/^(?:$|# (?:HELP|TYPE) [a-z_]+ )/.test(line));
    const samples = lines.map((line) => /^([a-z_]+(?:\{.*\})?) (\S+)$/.exec(line)!);
    return Object.fromEntries(samples.map(([, name, value]) => [name, Number(value)]));
  }

  it('counts requests by result, in each process its own', async () => {
    const key = newKey();
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

  it('exports the same numbers to Prometheus', async () => {
    const requests = (result: string) =>
      `idempotency_requests_total{${OF_PAYMENTS},idempotency_transport="http",idempotency_result="${result}"}`;
    expect(await metrics(express)).toMatchObject({
      [requests('executed')]: 1,
      [requests('replayed')]: 1,
      [requests('mismatch')]: 1,
      [`idempotency_takeovers_total{${OF_PAYMENTS}}`]: 0,
      [`idempotency_attempt_active{${OF_PAYMENTS}}`]: 0,
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

  it('shows a running attempt, until it takes too long', async () => {
    const response = pay(express, newKey(), HANGS);
    await until(async () => (await activity(express)).running === 1);
    expect(await metrics(express)).toMatchObject({
      [`idempotency_attempt_active{${OF_PAYMENTS}}`]: 1,
    });
    expect(await response).toBe(504);
    expect(await activity(express)).toMatchObject(IDLE);
  });
});
