import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import {
  type IdempotencyEvent,
  IdempotencyEvents,
  StoreOutcomeUnknownError,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore, type RedisIdempotencyStore } from 'nestjs-idempotency/redis';
import { type Begin, type BeginReply, type Lease, UNKNOWN_FENCE } from 'nestjs-idempotency/store';
import { newCall } from '../../support/engine/caller.js';
import { noServices } from '../../support/engine/protocol-options.js';
import { newRequest, success, Worker } from '../../support/engine/worker.js';
import { CallTransport } from '../../support/internals/call.js';
import {
  DEFAULT_LIMITS,
  IdempotencyEngine,
  StoreUnavailableError,
} from '../../support/internals/core.js';
import { LogReporter } from '../../support/internals/nest.js';
import { RedisCluster } from '../../support/redis/redis-cluster.js';
import { RedisNode } from '../../support/redis/redis-node.js';
import { startRedis } from '../../support/redis/redis-server.js';
import { useRedisClient } from '../../support/redis/use-redis.js';
import { START_HOOK_MS } from '../../support/servers/start-server.js';
import { useServer } from '../../support/servers/use-server.js';
import {
  acquire,
  beginCommand,
  completeCommand,
  end,
  extendCommand,
  leaseOf,
  newRecordKey,
  releaseCommand,
  TIMEOUT_MS,
  watch as watchFor,
} from '../../support/stores/commands.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import { healthOf } from '../../support/stores/health-of.js';
import { until } from '../../support/waiting/until.js';
import { startSilentServer } from './support/canned-server.js';
import { closeAfterTest, ownStore, userClient } from './support/fixture.js';

describe('push', () => {
  const server = useServer(startRedis);
  const observer = useRedisClient(server);

  /** A store on a client of the application. */
  function storeOver(client: Redis, push?: boolean): RedisIdempotencyStore {
    const store = redisStore({ client, push });
    closeAfterTest({ stop: () => store.close() });
    return store;
  }

  const watch = (store: RedisIdempotencyStore, record: Pick<Lease, 'recordKey'>) =>
    watchFor(store, record, TIMEOUT_MS);

  async function openChannels(): Promise<number> {
    return ((await observer.call('PUBSUB', 'CHANNELS')) as unknown[]).length;
  }

  describe.each([
    ['its own connection', () => ownStore(server.url)],
    ['a client of the application', () => storeOver(userClient(server.url))],
    ['a client with a key prefix', () => storeOver(userClient(server.url, { keyPrefix: 'shop:' }))],
  ])('A store with %s', (_, open) => {
    it.each(['completed', 'released'] as const)(
      'notifies that a watched record was %s, and of no other record',
      async (how) => {
        const [worker, other] = [open(), open()];
        const [watched, neighbour] = [await acquire(worker), await acquire(worker)];
        const watcher = await watch(other, watched);
        await end[how](worker, neighbour, true);
        await end[how](worker, watched, true);
        await until(() => watcher.reported > 0);
        expect(watcher.reported).toBe(1);
        watcher.stop?.();
        await until(async () => (await openChannels()) === 0);
      },
    );
  });

  describe('A store', () => {
    it('publishes nothing for operations without waiting duplicates', async () => {
      const store = ownStore(server.url);
      await observer.config('RESETSTAT');
      await end.completed(store, await acquire(store));
      await end.released(store, await acquire(store), false);
      await end.completed(store, await acquire(store), true);
      const statistics = await observer.info('commandstats');
      expect(/cmdstat_publish:calls=(\d+)/.exec(statistics)?.[1]).toBe('1');
    });

    it('opens one connection and one subscription for all watches', async () => {
      const store = ownStore(server.url);
      const lease = await acquire(store);
      await observer.config('RESETSTAT');
      const watchers = await Promise.all(Array.from({ length: 20 }, () => watch(store, lease)));
      const statistics = await observer.info('commandstats');
      expect(/cmdstat_subscribe:calls=(\d+)/.exec(statistics)?.[1]).toBe('1');
      const clients = String(await observer.client('LIST', 'TYPE', 'PUBSUB'));
      expect(clients.trim().split('\n')).toHaveLength(1);

      await end.completed(store, lease, true);
      await until(() => watchers.every(({ reported }) => reported === 1));
      for (const { stop } of watchers.slice(1)) stop?.();
      expect(await openChannels()).toBe(1);
      watchers[0]!.stop?.();
      await until(async () => (await openChannels()) === 0);
    });

    it('closes its listening connection', async () => {
      const store = storeOver(userClient(server.url));
      await watch(store, { recordKey: newRecordKey() });
      await store.close();
      await until(async () => !String(await observer.client('LIST')).includes('cmd=subscribe'));
    });

    it('does not listen between its close and its next open', async () => {
      const [own, borrowing] = [ownStore(server.url), storeOver(userClient(server.url))];
      for (const store of [own, borrowing]) {
        await store.open();
        await store.close();
        const record = { recordKey: newRecordKey() };
        expect((await watch(store, record)).stop).toBeUndefined();
        expect(String(await observer.client('LIST', 'TYPE', 'PUBSUB'))).toBe('');
        await store.open();
        expect((await watch(store, record)).stop).toBeDefined();
        await store.close();
        await until(async () => String(await observer.client('LIST', 'TYPE', 'PUBSUB')) === '');
      }
    });

    it('does not listen or publish with push: false', async () => {
      const store = ownStore(server.url, { push: false });
      await observer.config('RESETSTAT');
      const lease = await acquire(store);
      expect((await watch(store, lease)).stop).toBeUndefined();
      await end.completed(store, lease, true);
      expect(await observer.info('commandstats')).not.toMatch(/cmdstat_(publish|subscribe)/);
    });

    it('completes without permission to publish, and returns no watch without permission to listen', async () => {
      await observer.call('ACL', 'SETUSER', 'mute', 'on', '>pass', '~*', '+@all', 'resetchannels');
      const store = storeOver(userClient(server.url, { username: 'mute', password: 'pass' }));
      const lease = await acquire(store);
      expect((await watch(store, lease)).stop).toBeUndefined();
      expect(await end.completed(store, lease, true)).toEqual({ kind: 'ok' });
      expect(await store.inspect(lease.recordKey, { timeoutMs: TIMEOUT_MS })).toMatchObject({
        state: 'completed',
      });
    });

    it.each([
      ['is down', () => RedisNode.down()],
      ['is silent', () => startSilentServer()],
    ])('returns no watch within the timeout while its server %s', async (_, start) => {
      const store = ownStore(closeAfterTest(await start()).url);
      const stop = await store.watch(newRecordKey(), () => undefined, { timeoutMs: 200 });
      expect(stop).toBeUndefined();
    });

    it('listens again when its server is back', async () => {
      const redis = closeAfterTest(await RedisNode.down());
      await redis.start();
      const store = ownStore(redis.url);
      const recordKey = newRecordKey();
      const beginAndRelease = async () => {
        const begin = beginCommand({ recordKey });
        await store.begin(begin);
        await store.release(leaseOf(begin, UNKNOWN_FENCE), releaseCommand({ notify: true }));
      };
      await until(() => succeeds(beginAndRelease));
      const watcher = await watch(store, { recordKey });
      expect(watcher.stop).toBeDefined();
      await redis.kill();
      await redis.start();
      await until(async () => (await succeeds(beginAndRelease)) && watcher.reported > 0);
    });
  });

  function succeeds(work: () => Promise<unknown>): Promise<boolean> {
    return work().then(
      () => true,
      () => false,
    );
  }
});

const critical: IdempotencyEvent = {
  type: 'store_unavailable',
  operation: 'pay',
  recordKey: 'digest' as never,
  source: 'request',
  error: new Error('down'),
};

describe('a listener that was subscribed twice', () => {
  it('is called twice, and once after one of its subscriptions ended', () => {
    const events = new IdempotencyEvents();
    let reported = 0;
    const listener = () => void (reported += 1);
    const leave = events.subscribe(listener);
    events.subscribe(listener);
    events.emit(critical);
    expect(reported).toBe(2);
    leave();
    leave();
    events.emit(critical);
    expect(reported).toBe(3);
  });

  it('replaces the log until the subscription with replacesLog has ended', () => {
    const events = new IdempotencyEvents();
    let logged = 0;
    events.reportTo({ report: () => void (logged += 1), subscriberFailed: () => undefined });
    const listener = () => undefined;
    const replacing = events.subscribe(listener, { replacesLog: true });
    const leave = events.subscribe(listener);
    leave();
    events.emit(critical);
    expect(logged).toBe(0);
    replacing();
    events.emit(critical);
    expect(logged).toBe(1);
  });
});

describe('a logger that throws', () => {
  const broken = () => {
    throw new Error('planned: the logger is down');
  };
  const logger = { log: broken, error: broken, warn: broken };

  it('fails no request, and leaves no attempt open', async () => {
    const events = new IdempotencyEvents();
    events.reportTo(new LogReporter(logger));
    events.subscribe(broken);
    const store = new FaultyStore(memoryStore());
    const engine = new IdempotencyEngine(store, events, DEFAULT_LIMITS);
    const calls = new CallTransport(engine, noServices);
    store.next('begin', unavailable);
    const call = newCall({ storeErrors: { whenUnavailable: 'execute' } });
    const paid = { kind: 'value', value: 'paid' };
    expect(await calls.settle(call, () => 'paid')).toMatchObject(paid);
    expect(await calls.settle(call, () => 'paid again')).toMatchObject(paid);
    expect(await engine.drain()).toBe(0);
  });
});

describe('an asynchronous subscriber that fails', () => {
  const failing: [string, () => unknown][] = [
    ['a promise', () => Promise.reject(new Error('planned: metrics are down'))],
    [
      'a promise that fails later',
      async () => {
        await new Promise(setImmediate);
        throw new Error('planned: metrics are down');
      },
    ],
  ];

  it.each(failing)('does not end the process, even when its logger throws: %s', async (_, fail) => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => void unhandled.push(reason);
    process.on('unhandledRejection', note);
    try {
      const events = new IdempotencyEvents();
      events.reportTo({
        report: () => undefined,
        subscriberFailed: () => {
          throw new Error('planned: the logger is down');
        },
      });
      events.subscribe(fail);
      events.emit(critical);
      for (let round = 0; round < 5; round += 1) await new Promise(setImmediate);
      expect(unhandled).toEqual([]);
    } finally {
      process.off('unhandledRejection', note);
    }
  });
});

describe('With waitReplicas', () => {
  const WAIT_MS = 100;

  const primary = useServer(() => startRedis({ args: ['--repl-diskless-sync-delay', '0'] }));
  const replica = useServer(() =>
    startRedis({ args: ['--replicaof', '127.0.0.1', String(primary.port)] }),
  );
  const onPrimary = useRedisClient(primary);
  const onReplica = useRedisClient(replica);

  beforeAll(async () => {
    await until(async () =>
      (await onReplica.info('replication')).includes('master_link_status:up'),
    );
    // The primary counts a replica only after its first confirmation, which can take a second.
    await onPrimary.set('first', 'write');
    await until(async () => (await onPrimary.wait(1, WAIT_MS)) === 1);
  }, START_HOOK_MS);
  afterEach(() => {
    replica.kill('SIGCONT');
  });

  function durableStore(count = 1): RedisIdempotencyStore {
    return ownStore(primary.url, { waitReplicas: { count, timeout: WAIT_MS } });
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
    const request = newRequest({ duplicates: { mode: 'wait', timeout: 60_000 } });
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
    const request = newRequest({ storeErrors: { saveTimeout: 60_000 } });
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

describe('On a cluster', () => {
  const servers = useServer(() => RedisCluster.start({ replicas: 0 }));
  const cluster = useServer(
    () => new Cluster(servers.addresses),
    (used) => used.disconnect(),
  );

  it('records are distributed over the nodes, and each completes its life cycle', async () => {
    const store = redisStore({ client: cluster });
    for (let i = 0; i < 30; i += 1) {
      const begin = beginCommand();
      const reply = await store.begin(begin);
      const lease = leaseOf(begin, reply.kind === 'acquired' ? reply.fence : -1);
      expect(await store.extend(lease, extendCommand())).toEqual({ kind: 'ok' });
      expect(await store.complete(lease, completeCommand())).toEqual({ kind: 'ok' });
      expect(await store.release(lease, releaseCommand())).toEqual({ kind: 'not_in_progress' });
      const record = await store.inspect(begin.recordKey, { timeoutMs: TIMEOUT_MS });
      expect(record).toMatchObject({ state: 'completed', fence: lease.fence });
    }
    for (const node of servers.nodes) expect(await node.call('DBSIZE')).toBeGreaterThan(0);
  });

  it('a record in a migrating slot is found on either node', async () => {
    const store = redisStore({ client: cluster });
    const begin = beginCommand();
    const slot = await servers.slotOf(`idem:1:${begin.recordKey}`);
    const from = await servers.primaryOf(slot);
    const to = servers.nodes[(servers.nodes.indexOf(from) + 1) % servers.nodes.length]!;
    await servers.startMigration(slot, from, to);
    expect((await store.begin(begin)).kind).toBe('acquired');
    expect((await store.begin(begin)).kind).toBe('owned');
    expect(await from.call('INFO', 'errorstats')).toContain('ASK');
    await servers.assign(slot, to);
    expect((await store.begin(begin)).kind).toBe('owned');
  });

  it('health checks reach each node', async () => {
    const health = healthOf(redisStore({ client: cluster }));
    for (const node of servers.nodes) {
      const scripts = () => node.info('commandstats', 'cmdstat_evalsha');
      const before = await scripts();
      await until(async () => {
        const options = { probe: 'write', maxAge: 0, timeout: TIMEOUT_MS } as const;
        expect(await health.check(options)).toMatchObject({ status: 'up', store: 'redis' });
        return (await scripts()) !== before;
      });
    }
  });

  it('the start checks ask one of the primaries', async () => {
    const store = redisStore({ client: cluster });
    expect(await store.open()).toEqual([expect.objectContaining({ code: 'redis_not_durable' })]);
  });

  it('a client of one node is unavailable for the records of other nodes', async () => {
    const [node] = servers.nodes;
    const store = redisStore({ client: userClient(node!.url) });
    let recordKey = newRecordKey();
    const ownerOf = async () => servers.primaryOf(await servers.slotOf(`idem:1:${recordKey}`));
    while ((await ownerOf()) === node) recordKey = newRecordKey();
    const attempt = store.begin(beginCommand({ recordKey, timeoutMs: 1_000 }));
    await expect(attempt).rejects.toThrow(StoreUnavailableError);
    await expect(attempt).rejects.toThrow('MOVED');
  });
});
