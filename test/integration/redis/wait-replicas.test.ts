import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { StoreOutcomeUnknownError } from 'nestjs-idempotency';
import type { Begin, BeginReply, Lease } from 'nestjs-idempotency/store';
import type { RedisIdempotencyStore } from 'nestjs-idempotency/redis';
import { startRedis } from '../../support/redis/redis-server.js';
import { START_HOOK_MS } from '../../support/servers/start-server.js';
import { newRequest, success, Worker } from '../../support/engine/worker.js';
import {
  beginCommand,
  completeCommand,
  leaseOf,
  newRecordKey,
  releaseCommand,
  TIMEOUT_MS,
} from '../../support/stores/commands.js';
import { ownStore } from './support/fixture.js';
import { until } from '../../support/waiting/until.js';
import { useRedisClient } from '../../support/redis/use-redis.js';
import { useServer } from '../../support/servers/use-server.js';

const WAIT_MS = 100;

const primary = useServer(() => startRedis({ args: ['--repl-diskless-sync-delay', '0'] }));
const replica = useServer(() =>
  startRedis({ args: ['--replicaof', '127.0.0.1', String(primary.port)] }),
);
const onPrimary = useRedisClient(primary);
const onReplica = useRedisClient(replica);

beforeAll(async () => {
  await until(async () => (await onReplica.info('replication')).includes('master_link_status:up'));
  // The primary counts a replica only after its first confirmation, which can take a second.
  await onPrimary.set('first', 'write');
  await until(async () => (await onPrimary.wait(1, WAIT_MS)) === 1);
}, START_HOOK_MS);
afterEach(() => {
  replica.kill('SIGCONT');
});

function durableStore(count = 1): RedisIdempotencyStore {
  return ownStore(primary.url, { waitReplicas: { count, timeoutMs: WAIT_MS } });
}

async function acquire(store: RedisIdempotencyStore, begin: Begin): Promise<Lease> {
  const reply = await store.begin(begin);
  return leaseOf(begin, (reply as BeginReply & { fence: number }).fence);
}

function valueAt(server: Redis, { recordKey }: Pick<Lease, 'recordKey'>): Promise<string | null> {
  return server.get(`idem:1:${recordKey}`);
}

async function callsOf(command: string): Promise<number> {
  const statistics = await onPrimary.info('commandstats');
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(statistics)?.[1] ?? 0);
}

describe('With waitReplicas', () => {
  it('a begin and a completion are on the replica when they return', async () => {
    const store = durableStore();
    const lease = await acquire(store, beginCommand());
    expect(await valueAt(onReplica, lease)).toMatch(/^2p/);
    await store.complete(lease, completeCommand());
    expect(await valueAt(onReplica, lease)).toMatch(/^2c/);
  });

  it('concurrent steps share a WAIT', async () => {
    const store = durableStore();
    await store.begin(beginCommand());
    await onPrimary.config('RESETSTAT');
    const begins = Array.from({ length: 200 }, () => beginCommand());
    const replies = await Promise.all(begins.map((begin) => store.begin(begin)));
    expect(new Set(replies.map(({ kind }) => kind))).toEqual(new Set(['acquired']));
    expect(await callsOf('evalsha')).toBe(200);
    expect(await callsOf('wait')).toBeLessThan(10);
  });

  it('a begin that no replica confirms has an unknown outcome', async () => {
    const store = durableStore();
    const begin = beginCommand();
    await onPrimary.set('another', 'write');
    expect(await onPrimary.wait(1, TIMEOUT_MS)).toBe(1);
    replica.kill('SIGSTOP');
    const attempt = store.begin(begin);
    await expect(attempt).rejects.toThrow(StoreOutcomeUnknownError);
    await expect(attempt).rejects.toThrow('0 of the 1 replicas');
    // WAIT on another connection covers only the commands of that connection.
    expect(await onPrimary.wait(1, 10)).toBe(1);
    expect(await valueAt(onPrimary, begin)).toMatch(/^2p/);
  });

  it('a request whose begin no replica confirms is rejected, and its key is free', async () => {
    const worker = new Worker(durableStore());
    const request = newRequest();
    replica.kill('SIGSTOP');
    expect(await worker.begin(request)).toEqual({ kind: 'reject', reason: 'store_unavailable' });
    await until(async () => (await valueAt(onPrimary, request))?.startsWith('2r') ?? false);
    replica.kill('SIGCONT');
    expect(await worker.run(request)).toMatchObject({ number: 2, isTakeover: false });
  });

  it('a waiting duplicate is rejected when no replica confirms its begin', async () => {
    const [owner, other] = [new Worker(ownStore(primary.url)), new Worker(durableStore())];
    const request = newRequest({ duplicates: { mode: 'wait', timeoutMs: 60_000 } });
    const attempt = await owner.run(request);
    const waiting = other.begin(request);
    await until(() => other.store.sentOf('begin').length > 0);
    replica.kill('SIGSTOP');
    await attempt.release();
    expect(await waiting).toEqual({ kind: 'reject', reason: 'store_unavailable' });
    await until(async () => (await valueAt(onPrimary, request))?.startsWith('2r') ?? false);
  });

  it('a completion that no replica confirms is sent again until one does [P61]', async () => {
    const worker = new Worker(durableStore());
    const request = newRequest({ storeErrors: { saveTimeoutMs: 60_000 } });
    const attempt = await worker.run(request);
    replica.kill('SIGSTOP');
    const settlement = attempt.complete(success('paid'));
    await until(async () => (await valueAt(onPrimary, request))?.startsWith('2c') ?? false);
    await until(() => worker.store.sentOf('complete').length > 1);
    expect(worker.eventsOf('completed')).toEqual([]);
    replica.kill('SIGCONT');
    expect(await settlement).toEqual({ kind: 'own' });
    expect(await valueAt(onReplica, request)).toMatch(/^2c.*paid$/s);
  });

  it('a command that writes nothing does not wait', async () => {
    const store = durableStore();
    const [begin, later] = [beginCommand(), beginCommand()];
    const lease = await acquire(store, begin);
    await store.complete(lease, completeCommand());
    replica.kill('SIGSTOP');
    const replay = await store.begin({ ...beginCommand(), recordKey: begin.recordKey });
    expect(replay).toMatchObject({ kind: 'completed' });
    // A release frees the key even while the replica is down.
    await expect(store.begin(later)).rejects.toThrow(StoreOutcomeUnknownError);
    expect(await store.release(leaseOf(later, 0), releaseCommand())).toEqual({ kind: 'ok' });
  });

  it('a server that has lost the scripts receives their text', async () => {
    const store = durableStore();
    await store.begin(beginCommand());
    await onPrimary.script('FLUSH');
    expect(await store.begin(beginCommand())).toMatchObject({ kind: 'acquired' });
  });

  it('a connection that is lost between a script and its WAIT confirms nothing', async () => {
    const store = durableStore();
    await store.begin(beginCommand());
    replica.kill('SIGSTOP');
    const begin = beginCommand({ timeoutMs: 5_000 });
    const attempt = store.begin(begin);
    attempt.catch(() => undefined);
    await until(async () => (await valueAt(onPrimary, begin)) !== null);
    await onPrimary.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    // WAIT is sent again with its script, whose write is not confirmed either.
    await expect(attempt).rejects.toThrow('0 of the 1 replicas');
  });

  it('the start warns of too few replicas', async () => {
    const warnings = await durableStore(2).open();
    expect(warnings.map(({ code }) => code)).toContain('redis_too_few_replicas');
    expect((await durableStore(1).open()).map(({ code }) => code)).not.toContain(
      'redis_too_few_replicas',
    );
  });

  it('the connection is closed with the store', async () => {
    const store = durableStore();
    await store.begin(beginCommand({ recordKey: newRecordKey(), timeoutMs: TIMEOUT_MS }));
    await store.close();
    await until(
      async () => !String(await onPrimary.client('LIST')).includes('name=nestjs-idempotency'),
    );
  });
});
