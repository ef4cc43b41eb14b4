import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import type { IdempotencyEvent, OperationRejectedError } from 'nestjs-idempotency';
import { redisStore, RedisIdempotencyStore } from 'nestjs-idempotency/redis';
import { randomUUID } from 'node:crypto';
import { loadScripts } from '../../support/internals/redis.js';
import type { Fault } from '../../support/stores/faulty-store.js';
import { startRedis } from '../../support/redis/redis-server.js';
import { standStill } from '../../support/clocks/stand-still.js';
import { driveTimers } from '../../support/clocks/driven-time.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { newRequest, success, Worker } from '../../support/engine/worker.js';
import { beginCommand } from '../../support/stores/commands.js';
import { Caller, newCall } from '../../support/engine/caller.js';
import { useRedisClient } from '../../support/redis/use-redis.js';
import { useServer } from '../../support/servers/use-server.js';

const redis = useServer(startRedis);
const client = useRedisClient(redis);

const freshStore = () => redisStore({ client, keyPrefix: randomUUID() });

const loadAll = async () => {
  for (const { text } of Object.values(loadScripts())) await client.script('LOAD', text);
};

/** The number of records in each state, by its letter in Redis. */
async function recordStates(keyPrefix: string): Promise<Record<string, number>> {
  const states: Record<string, number> = {};
  for (const key of await client.keys(`${keyPrefix}:*`)) {
    const state = (await client.get(key))![1]!;
    states[state] = (states[state] ?? 0) + 1;
  }
  return states;
}

describe('a process that shuts down under a burst of requests', () => {
  it.each(isTestAll ? [0, 1, 10, 30] : [3])(
    '%d ms after their arrival leaves no record in progress [P44]',
    async (ms) => {
      const keyPrefix = randomUUID();
      const store = redisStore({ url: redis.url, keyPrefix, onConnectionError: () => undefined });
      await store.open();
      const caller = new Caller(store);
      let executions = 0;
      const call = () =>
        caller
          .call(
            newCall({ storeErrors: { commandTimeout: 10_000, saveTimeout: 10_000 } }),
            () => (executions += 1),
          )
          .then(
            () => 'done',
            (error: unknown) => (error as OperationRejectedError).code,
          );
      const calls = Array.from({ length: 300 }, call);
      await new Promise((resolve) => setTimeout(resolve, ms));
      expect(await caller.engine.drain()).toBe(0);
      await store.close();
      const results = await Promise.all(calls);
      const done = results.filter((result) => result === 'done').length;
      expect(done).toBe(executions);
      expect(new Set(results)).toEqual(
        new Set([
          ...(done > 0 ? ['done'] : []),
          ...(done < 300 ? ['idempotency_shutting_down'] : []),
        ]),
      );
      const { c = 0, r = 0, ...others } = await recordStates(keyPrefix);
      expect(others).toEqual({});
      expect(c).toBe(done);
      expect(r).toBeLessThanOrEqual(300 - done);
    },
  );
});

describe('a command whose script the server does not know', () => {
  it('is not executed once its caller has given up', async () => {
    const store = freshStore();
    await client.script('FLUSH');
    await client.config('RESETSTAT');
    const command = beginCommand({ timeoutMs: 100 });
    redis.kill('SIGSTOP');
    try {
      await expect(store.begin(command)).rejects.toMatchObject({
        code: 'idempotency_store_outcome_unknown',
      });
    } finally {
      redis.kill('SIGCONT');
    }
    // Sent on the same connection, after any command that the late error reply may have triggered.
    await client.ping();
    await client.ping();
    expect(await client.info('commandstats')).not.toContain('cmdstat_eval:');
    expect(await store.inspect(command.recordKey, { timeoutMs: 5_000 })).toBeUndefined();
  });
});

describe('a process whose event loop was blocked for longer than the lease', () => {
  afterEach(() => void jest.useRealTimers());

  it('keeps it when the reply to its heartbeat arrived meanwhile', async () => {
    await loadAll();
    const leaseMs = 6_000;
    driveTimers(true);
    const worker = new Worker(freshStore());
    const attempt = await worker.run(
      newRequest({
        lease: { duration: leaseMs },
        storeErrors: { commandTimeout: 2 * leaseMs },
      }),
    );
    const { signal } = attempt;
    const blocked = new Promise<void>((resolve) => {
      const blocking: Fault = (execute) => {
        const reply = execute();
        // At the end of this event loop iteration, when the client has written its command.
        setImmediate(() => {
          // The reply arrives, but is read only after all of that time.
          standStill(200);
          jest.advanceTimersByTime((5 / 6) * leaseMs);
          resolve();
        });
        return reply;
      };
      worker.store.next('extend', blocking);
    });
    jest.advanceTimersByTime(leaseMs / 3);
    await blocked;
    for (let round = 0; round < 5; round += 1) await new Promise(setImmediate);
    expect(signal.aborted).toBe(false);
    expect(await attempt.complete(success('paid'))).toEqual({ kind: 'own' });
    expect(worker.reported).toEqual(['acquired', 'completed']);
  });
});

describe('a wrong password', () => {
  // The test's own connection stays open.
  beforeAll(async () => {
    await client.config('SET', 'requirepass', 'right');
  });
  afterAll(async () => {
    await client.config('SET', 'requirepass', '');
  });

  async function eventsWith(open: typeof redisStore): Promise<IdempotencyEvent[]> {
    const url = `redis://:wrong@127.0.0.1:${String(redis.port)}`;
    const store = open({ url, onConnectionError: () => undefined });
    const caller = new Caller(store);
    let executions = 0;
    const call = newCall({ storeErrors: { whenUnavailable: 'execute', commandTimeout: 5_000 } });
    const rejection = await caller.rejected(call, () => (executions += 1));
    expect(rejection).toMatchObject({ code: 'idempotency_store_unavailable' });
    expect(executions).toBe(0);
    await store.close();
    return caller.events;
  }

  const reported = [
    { type: 'store_unavailable', error: { code: 'idempotency_store_misconfigured' } },
    { type: 'rejected' },
  ];

  it("runs nothing, even with whenUnavailable: 'execute'", async () => {
    expect(await eventsWith(redisStore)).toMatchObject(reported);
  });

  it('runs nothing with a store of another copy of the package', async () => {
    jest.resetModules();
    const another = await import('nestjs-idempotency/redis');
    expect(another.RedisIdempotencyStore).not.toBe(RedisIdempotencyStore);
    expect(await eventsWith(another.redisStore)).toMatchObject(reported);
  });
});
