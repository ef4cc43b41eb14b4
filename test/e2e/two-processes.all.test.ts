import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ApiProcess } from '../../sample-app/demo/processes/api-process.js';
import { typescriptNodeOptions } from '../support/typescript/node-options.js';
import { useRedis } from '../support/redis/use-redis.js';

const KEYS = 500;
const COPIES_AT_ONCE = 10;
const COPIES_LATER = 10;
const KEYS_AT_ONCE = 10;

interface ApiResponse {
  readonly status: number | undefined;
  readonly isReplay: boolean;
  readonly body: string;
}

describe('two processes on one Redis', () => {
  const folder = mkdtempSync(join(tmpdir(), 'idempotency-two-processes-'));
  const ledger = join(folder, 'ledger.jsonl');
  const agent = new Agent({ keepAlive: true });
  const redis = useRedis();
  let apis: ApiProcess[] = [];

  beforeAll(async () => {
    const settings = {
      STORE: 'redis',
      REDIS_URL: redis.url,
      LEDGER_FILE: ledger,
      PROVIDER_DELAY_MS: '20',
      // A busy machine must not look like a Redis that is down.
      COMMAND_TIMEOUT: '5s',
      SAVE_TIMEOUT: '10s',
    };
    apis = ['express', 'fastify'].map(
      (PLATFORM) => new ApiProcess({ ...settings, PLATFORM }, typescriptNodeOptions),
    );
    await Promise.all(apis.map((api) => api.untilListening()));
  }, 60_000);

  afterAll(async () => {
    agent.destroy();
    await Promise.all(apis.map((api) => api.kill()));
    rmSync(folder, { recursive: true });
  });

  function pay(copy: number, key: string, description: string): Promise<ApiResponse> {
    return new Promise((resolve, reject) => {
      const { url } = apis[copy % apis.length]!;
      const headers = {
        authorization: 'Bearer alice-demo-token',
        'idempotency-key': key,
        'content-type': 'application/json',
      };
      request(`${url}/payments`, { method: 'POST', agent, headers }, (response) => {
        const { statusCode: status, headers: responded } = response;
        const isReplay = responded['idempotent-replayed'] === 'true';
        text(response).then((body) => resolve({ status, isReplay, body }), reject);
      })
        .once('error', reject)
        .end(JSON.stringify({ amount: 4999, currency: 'EUR', description }));
    });
  }

  /** Sends all copies of one payment: half of them concurrently, the others after their responses. */
  async function payTwentyTimes(description: string): Promise<ApiResponse[][]> {
    const key = randomUUID();
    const send = (copies: number) =>
      Promise.all(Array.from({ length: copies }, (_, copy) => pay(copy, key, description)));
    return [await send(COPIES_AT_ONCE), await send(COPIES_LATER)];
  }

  const requests = KEYS * (COPIES_AT_ONCE + COPIES_LATER);

  it(`execute ${KEYS} payments of ${requests} requests, and return one body for each key [P01]`, async () => {
    const waiting = Array.from({ length: KEYS }, (_, index) => `payment ${index + 1}`);
    const responded: ApiResponse[][][] = [];
    const worker = async () => {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
        responded.push(await payTwentyTimes(next));
      }
    };
    await Promise.all(Array.from({ length: KEYS_AT_ONCE }, worker));

    const charges = readFileSync(ledger, 'utf8').trimEnd().split('\n');
    const descriptions = charges.map((line) => JSON.parse(line).description as string);
    expect(descriptions).toHaveLength(KEYS);
    expect(new Set(descriptions).size).toBe(KEYS);

    expect(responded).toHaveLength(KEYS);
    for (const [atOnce = [], later = []] of responded) {
      const executed = atOnce.filter(({ status, isReplay }) => status === 201 && !isReplay);
      expect(executed).toHaveLength(1);
      const [first] = executed;
      const replay = { status: 201, isReplay: true, body: first?.body };
      for (const response of atOnce) {
        if (response !== first && response.status !== 409) expect(response).toEqual(replay);
      }
      expect(later).toEqual(Array(COPIES_LATER).fill(replay));
    }
  }, 90_000);
});
