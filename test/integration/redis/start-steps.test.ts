import { describe, expect, it } from '@jest/globals';
import {
  IdempotencyMeter,
  IdempotencyService,
  type IdempotencyEvent,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { afterTest } from '../../support/jest/after-test.js';
import { callingApp, rejection } from '../../support/nest/calling-app.js';
import { RedisNode } from '../../support/redis/redis-node.js';
import { startRedis } from '../../support/redis/redis-server.js';
import { useRedisClient } from '../../support/redis/use-redis.js';
import { useServer } from '../../support/servers/use-server.js';
import { until } from '../../support/waiting/until.js';

// Its users and settings change.
const server = useServer(() => startRedis({ args: ['--appendonly', 'yes'] }));
const admin = useRedisClient(server);

async function start(
  url: string,
  options: object = {},
  module: Partial<IdempotencyModuleOptions> = {},
) {
  const store = redisStore({
    url,
    onConnectionError: () => undefined,
    ...options,
  });
  const app = await callingApp({}, { store, ...module });
  afterTest(() => app.nest.close());
  const service = app.nest.get(IdempotencyService, { strict: false });
  const events: readonly IdempotencyEvent[] = app.events;
  return {
    ...app,
    events,
    store,
    codes: () => app.log.own.flatMap((line) => /\[(\w+)\]$/.exec(line)?.[1] ?? []),
    run: (key: string) => service.run({ operation: 'pay', key, scope: 'alice' }, () => 'paid'),
  };
}

/** @returns the URL of the user, who has these rules from now on. */
async function userWith(...rules: readonly string[]): Promise<string> {
  await admin.call('ACL', 'SETUSER', 'app', 'reset', 'on', '>pw', ...rules);
  return `redis://app:pw@127.0.0.1:${server.port}`;
}

describe('The start stops, with the remedy, for a user', () => {
  it.each<[string, string[], RegExp, object?]>([
    [
      'without scripting',
      ['~*', '&*', '+@all', '-@scripting'],
      /may not run scripts.*\+eval \+evalsha/,
    ],
    ['without EVALSHA', ['~*', '&*', '+@all', '-evalsha'], /'evalsha' command.*requires EVALSHA/],
    [
      'with another key pattern',
      ['~other:*', '&*', '+@all'],
      /may not read and write the keys.*~idem:\*, or set keyPrefix/,
    ],
    [
      'with another key pattern than its prefix',
      ['~idem:*', '&*', '+@all'],
      /~shop:eu:\*/,
      { keyPrefix: 'shop:eu' },
    ],
    ['who may only read keys', ['%R~*', '&*', '+@all'], /may not read and write the keys/],
    ['who may only run commands that read', ['~*', '&*', '+@read', '+info'], /may not run scripts/],
    [
      'without SET',
      ['~*', '&*', '+@all', '-set'],
      /requires EVALSHA, EVAL, TIME, GETRANGE, GET, SET/,
    ],
    // Which no step of the start needs: a replay and a heartbeat would.
    ['without GET', ['~*', '&*', '+@all', '-get'], /may not run.*SETUSER … \+get\./],
    [
      'without the commands on the lifetime of keys',
      ['~*', '&*', '+@all', '-@keyspace'],
      /may not run.*SETUSER … \+pexpireat\./,
    ],
    [
      'without both',
      ['~*', '&*', '+@all', '-get', '-pexpireat'],
      /SETUSER … \+get \+pexpireat\./,
      { push: false },
    ],
  ])('%s', async (_, rules, message, options = {}) => {
    const error = await rejection(start(await userWith(...rules), options));
    expect(error.code).toBe('idempotency_store_misconfigured');
    expect(error.message).toMatch(message);
    expect(error.message).not.toContain('args');
  });
});

it('The start stops without WAIT, which waitReplicas requires', async () => {
  const replica = await startRedis({ args: ['--replicaof', `127.0.0.1 ${server.port}`] });
  afterTest(() => replica.stop());
  await until(async () => (await admin.info()).includes('state=online'));
  const url = await userWith('~*', '&*', '+@all', '-wait');
  const error = await rejection(start(url, { waitReplicas: { count: 1, timeoutMs: 1_000 } }));
  expect(error.code).toBe('idempotency_store_misconfigured');
  expect(error.message).toMatch(/'wait' command/);
});

describe('The start warns, and operations run, for a user', () => {
  it('without the channels of the store', async () => {
    const url = await userWith('~idem:*', 'resetchannels', '+@all');
    const { log, codes, run } = await start(url);
    expect(codes()).toEqual(['redis_no_push']);
    expect(log.own[0]).toContain('&idem:* +publish +subscribe');
    expect(await run('one')).toBe('paid');
    expect((await start(url, { push: false })).codes()).toEqual([]);
  });
});

describe('The start warns once, and does not stop, where Redis', () => {
  it('is full', async () => {
    await admin.config('SET', 'maxmemory', '1');
    try {
      const { log, codes } = await start(server.url);
      expect(codes()).toEqual(['store_step_failed']);
      expect(log.own[0]).toMatch(/Raise maxmemory/);
    } finally {
      await admin.config('SET', 'maxmemory', '0');
    }
  });

  it('has too few replicas to write', async () => {
    await admin.config('SET', 'min-replicas-to-write', '1');
    try {
      expect((await start(server.url)).codes()).toEqual(['store_step_failed']);
    } finally {
      await admin.config('SET', 'min-replicas-to-write', '0');
    }
  });

  it('is a replica', async () => {
    await admin.replicaof('127.0.0.1', '1');
    try {
      expect((await start(server.url)).codes()).toEqual(['redis_is_replica']);
      // Where INFO does not tell, the steps do.
      const url = await userWith('~*', '&*', '+@all', '-info');
      const options = { connection: { enableReadyCheck: false } };
      expect((await start(url, options)).codes()).toEqual([
        'redis_not_checked',
        'store_step_failed',
      ]);
    } finally {
      await admin.replicaof('NO', 'ONE');
    }
  });

  it('has fewer replicas than waitReplicas requires', async () => {
    const options = { waitReplicas: { count: 1, timeoutMs: 50 } };
    expect((await start(server.url, options)).codes()).toEqual(['redis_too_few_replicas']);
  });

  it('is a cluster without its slots', async () => {
    const node = await startRedis({ args: ['--cluster-enabled', 'yes', '--appendonly', 'yes'] });
    afterTest(() => node.stop());
    const { log, codes } = await start(node.url);
    expect(codes()).toEqual(['store_step_failed']);
    expect(log.own[0]).toContain('CLUSTERDOWN');
  });
});

describe('The start warns once, and the application serves later, where Redis', () => {
  const node = useServer(() => RedisNode.start());
  const served = async ({ run }: Awaited<ReturnType<typeof start>>, key: string) => {
    for (;;) {
      const result = await run(key).catch(() => undefined);
      if (result !== undefined) return result;
    }
  };

  it('does not reply', async () => {
    node.pause();
    try {
      const app = await start(node.url);
      expect(app.codes()).toEqual(['redis_unreachable']);
      node.resume();
      expect(await served(app, 'paused')).toBe('paid');
    } finally {
      node.resume();
    }
  });

  it('is not there', async () => {
    await node.kill();
    const app = await start(node.url);
    expect(app.codes()).toEqual(['redis_unreachable']);
    await node.start();
    expect(await served(app, 'gone')).toBe('paid');
  });
});

describe('What the start has tried', () => {
  it('is gone, and is in no metric, event or list of the reconciler', async () => {
    await admin.flushall();
    const { nest, events, store, log } = await start(server.url, {}, { breaker: true });
    expect(await admin.keys('*')).toEqual([]);
    const { records } = await store.abandoned({ overMs: 0, limit: 9, timeoutMs: 5_000 });
    expect(records).toEqual([]);
    expect(events).toEqual([]);
    expect(log.own).toEqual([]);
    expect(nest.get(IdempotencyMeter, { strict: false }).read().store.commands).toEqual([]);
  });

  it('does not collide with other starts', async () => {
    await admin.flushall();
    const apps = await Promise.all(Array.from({ length: 50 }, () => start(server.url)));
    expect(apps.flatMap(({ log }) => log.own)).toEqual([]);
    expect(await admin.dbsize()).toBe(0);
  });
});
