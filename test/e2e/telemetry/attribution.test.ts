import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { BadRequestException, Body, Controller, Post } from '@nestjs/common';
import type { ReadableSpan } from '@opentelemetry/sdk-trace-node';
import { Redis } from 'ioredis';
import { Idempotent } from 'nestjs-idempotency';
import { openTelemetry } from 'nestjs-idempotency/opentelemetry';
import { redisStore } from 'nestjs-idempotency/redis';
import { recordKey } from 'nestjs-idempotency/store';
import { platforms } from '../../support/http/combinations.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { KeepAliveConnection } from '../../support/http/wire/raw-client.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { useRedis } from '../../support/redis/use-redis.js';
import { SERVICE } from '../../support/stores/named-for.js';
import {
  idOf,
  linksOf,
  REQUEST_KEY,
  TestSdk,
  traceRequests,
  written,
} from '../../support/telemetry/test-sdk.js';

const REQUESTS = isTestAll ? 10_000 : 400;
const AT_A_TIME = isTestAll ? 500 : 100;
/** The requests of each key are sent close to each other: most wait for one another. */
const PER_KEY = 4;
const OPERATION = 'payments.create';
/** Either sends several requests' commands at once. */
const OWN = 'the connection of the store';
const WAYS = [OWN, 'a client with auto-pipelining'];

/** Every other key's attempt ends otherwise than those that run beside it. */
const isRejected = (key: string) => Number(key.at(-1)) % 2 === 1;

@Controller()
class Payments {
  @Post('payments')
  @Idempotent({ operation: OPERATION, duplicates: 'wait' })
  async create(@Body() { key }: { key: string }) {
    await new Promise(setImmediate);
    if (isRejected(key)) throw new BadRequestException();
    return { key };
  }
}

const redis = useRedis();

describe.each(platforms)('on %s', (platform) => {
  describe.each(isTestAll ? WAYS : WAYS.slice(0, 1))('with %s', (way) => {
    let client: Redis;
    let sdk: TestSdk;
    let app: TestApp;
    let connections: KeepAliveConnection[];
    beforeAll(async () => {
      sdk = TestSdk.start();
      client = new Redis(redis.url, { enableAutoPipelining: true });
      app = await startApp({
        platform,
        store: redisStore(way === OWN ? { url: redis.url } : { client }),
        controllers: [Payments],
        guard: { canActivate: () => true },
        options: {
          telemetry: openTelemetry(),
          caller: { scope: () => 'tester' },
          // All requests are one caller's.
          limits: { maxWaitersPerCaller: AT_A_TIME },
          storeErrors: { commandTimeout: 5_000, saveTimeout: 5_000 },
        },
        configure: traceRequests,
      });
      connections = Array.from({ length: AT_A_TIME }, () => new KeepAliveConnection(app.port));
    });
    afterAll(async () => {
      for (const connection of connections) connection.close();
      await app.close();
      client.disconnect();
      await sdk.stop();
    });

    it(`each of ${REQUESTS} requests, ${AT_A_TIME} at a time, has its own record key, and links lead to its execution`, async () => {
      const keys = Array.from(
        { length: REQUESTS },
        (_, index) => `${way.length}-${platform}-${String(Math.floor(index / PER_KEY))}`,
      );
      const left = [...keys];
      const statuses = new Set<number>();
      await Promise.all(
        connections.map(async (connection) => {
          for (let key = left.pop(); key !== undefined; key = left.pop()) {
            const lines = [
              ['Idempotency-Key', key],
              ['Content-Type', 'application/json'],
            ] as const;
            const body = Buffer.from(JSON.stringify({ key }));
            const request = { method: 'POST', path: '/payments', lines, body };
            statuses.add((await connection.exchange(request)).status);
          }
        }),
      );
      expect(statuses).toEqual(new Set([201, 400]));
      const spans = await sdk.ended(REQUESTS);
      const executions = new Map<string, ReadableSpan>();
      const keyOf = (span: ReadableSpan) => span.attributes[REQUEST_KEY] as string;
      for (const span of spans) {
        const { 'idempotency.result': result } = written(span);
        if (result !== 'executed') continue;
        expect(executions.has(keyOf(span))).toBe(false);
        executions.set(keyOf(span), span);
      }
      expect(executions.size).toBe(REQUESTS / PER_KEY);
      const wrong = spans.filter((span) => {
        const key = keyOf(span);
        const execution = executions.get(key);
        const isFirst = span === execution;
        const expected = isFirst ? [] : [[idOf(execution), 'first_execution']];
        const attributes = written(span);
        const end = isRejected(key) ? 'failed' : 'completed';
        const own = recordKey({ service: SERVICE, scope: ['tester'], operation: OPERATION, key });
        return (
          attributes['idempotency.record.key'] !== own ||
          attributes['idempotency.result'] !== (isFirst ? 'executed' : 'replayed') ||
          attributes['idempotency.attempt.end'] !== (isFirst ? end : undefined) ||
          JSON.stringify(linksOf(span)) !== JSON.stringify(expected)
        );
      });
      expect(wrong.map((span) => ({ ...written(span), links: linksOf(span) }))).toEqual([]);
    }, 120_000);
  });
});
