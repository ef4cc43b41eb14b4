import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { Cluster } from 'ioredis';
import { redisStore, type RedisIdempotencyStore } from 'nestjs-idempotency/redis';
import type { RecordKey } from '../../support/internals/core.js';
import {
  beginCommand,
  completeCommand,
  leaseOf,
  newRecordKey,
} from '../../support/stores/commands.js';
import { RedisCluster } from '../../support/redis/redis-cluster.js';
import { afterTest } from '../../support/jest/after-test.js';
import { useServer } from '../../support/servers/use-server.js';

/**
 * Set it higher for a longer run. integration/redis/connections/shifted-replies rejects code that trusts its replies: it
 * shifts them by hand.
 */
const FAILOVERS = Number(process.env.FAILOVERS ?? 8);
const BEGINS = Number(process.env.BEGINS ?? 20_000);

const LOOPS = 64;
const COMMAND_TIMEOUT_MS = 5_000;

jest.setTimeout(30 * 60_000);

const servers = useServer(() => RedisCluster.start());
afterEach(() => servers.untilHealthy());

function openStores(options: { readonly enableOfflineQueue: boolean }) {
  return Array.from({ length: 2 }, () => {
    const client = new Cluster(servers.addresses, {
      enableAutoPipelining: true,
      retryDelayOnClusterDown: 0,
      redisOptions: { connectTimeout: 2_000, socketTimeout: 1_000 },
      ...options,
    });
    client.on('error', () => undefined);
    const waitReplicas = { count: 1, timeout: 1_000 };
    const store = redisStore({ client, push: false, waitReplicas });
    afterTest(async () => {
      await store.close();
      client.disconnect();
    });
    return store;
  });
}

interface Run {
  begins: number;
  replays: number;
  failovers: number;
  /** Requests that received an outcome of another key. */
  readonly foreign: string[];
  readonly finished: Set<RecordKey>;
}

/**
 * Requests to two processes' stores, one in twenty with a new key, the others retries, while one primary
 * after the other is replaced: in agreement, by election after its death, or by force.
 *
 * @param isOver - read before each request and each failover.
 */
async function underFailovers(
  stores: readonly RedisIdempotencyStore[],
  isOver: (run: Run) => boolean,
): Promise<Run> {
  const run: Run = { begins: 0, replays: 0, failovers: 0, foreign: [], finished: new Set() };
  const keys: RecordKey[] = [];
  const request = async (store: RedisIdempotencyStore) => {
    if (keys.length < 50 || Math.random() < 0.05) keys.push(newRecordKey());
    const recordKey = keys[Math.floor(Math.random() * keys.length)]!;
    const begin = beginCommand({ recordKey, leaseMs: 5_000, timeoutMs: COMMAND_TIMEOUT_MS });
    run.begins += 1;
    const reply = await store.begin(begin);
    if (reply.kind === 'completed') {
      const body = Buffer.from(reply.outcome.body).toString();
      run.replays += 1;
      if (body !== recordKey) run.foreign.push(`${recordKey}: ${body}`);
    } else if ('attempt' in reply && reply.kind !== 'abandoned') {
      const outcome = { header: '{}', body: Buffer.from(recordKey) };
      const complete = completeCommand({ outcome, timeoutMs: COMMAND_TIMEOUT_MS });
      await store.complete(leaseOf(begin, reply.fence), { ...complete, whenGone: 'restore' });
      run.finished.add(recordKey);
    }
  };
  const loop = async (store: RedisIdempotencyStore) => {
    while (!isOver(run)) {
      // Without a reply, there is no foreign one either.
      await request(store).catch(() => undefined);
      if (Math.random() < 0.3) await delay(Math.random() * 10);
    }
  };
  const failovers = async () => {
    while (!isOver(run)) {
      await delay(100 + Math.random() * 400);
      await replaceOne();
      run.failovers += 1;
    }
  };
  await Promise.all([
    failovers(),
    ...Array.from({ length: LOOPS }, (_, i) => loop(stores[i % stores.length]!)),
  ]);
  return run;
}

async function replaceOne(): Promise<void> {
  const primaries = await servers.primaries();
  const old = primaries[Math.floor(Math.random() * primaries.length)]!;
  if (Math.random() < 1 / 3) {
    await servers.failover(old);
  } else {
    await old.kill();
    if (Math.random() < 0.5) await servers.untilReplaced(old);
    else await servers.failover(old, 'takeover');
    await old.start();
  }
  await servers.untilHealthy();
}

describe('While the primaries of a cluster are replaced repeatedly', () => {
  it.each([true, false])(
    'no key gets the outcome of another, enableOfflineQueue: %s',
    async (enableOfflineQueue) => {
      const stores = openStores({ enableOfflineQueue });
      const run = await underFailovers(
        stores,
        ({ begins, failovers }) => begins >= BEGINS && failovers >= FAILOVERS,
      );
      const { begins, replays, failovers, foreign, finished } = run;
      console.log(
        `${String(failovers)} failovers, ${String(begins)} begins, ${String(replays)} replays`,
      );
      expect(foreign).toEqual([]);
      // The servers' data: a failover may have lost records, but none is another key's.
      for (const recordKey of finished) {
        const record = await stores[0]!.inspect(recordKey, { timeoutMs: COMMAND_TIMEOUT_MS });
        if (record?.outcome === undefined) continue;
        expect(Buffer.from(record.outcome.body).toString()).toBe(recordKey);
      }
      expect(replays).toBeGreaterThan(begins / 2);
    },
  );
});
