import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster, type Redis } from 'ioredis';
import { redisStore } from 'nestjs-idempotency/redis';
import { abandon } from '../../support/engine/abandon.js';
import { afterTest, closeAfterTest } from '../../support/jest/after-test.js';
import { RedisCluster } from '../../support/redis/redis-cluster.js';
import { RedisNode } from '../../support/redis/redis-node.js';
import { RedisSentinel } from '../../support/redis/redis-sentinel.js';
import { startRedis } from '../../support/redis/redis-server.js';
import { useRedisClient } from '../../support/redis/use-redis.js';
import { useServer } from '../../support/servers/use-server.js';
import { untilSettled } from '../../support/waiting/until.js';
import { startInfoServer } from '../redis/support/canned-server.js';
import { as, diagnose } from './support/diagnosis.js';
import { OperatorTerminal } from './support/operator-terminal.js';
import { runServices, TWO_SERVICES } from './support/run-services.js';

const DURABLE = ['--appendonly', 'yes'];

describe('On a Redis server, the doctor', () => {
  const server = useServer(() =>
    startRedis({ args: [...DURABLE, '--enable-protected-configs', 'yes'] }),
  );
  const client: Redis = useRedisClient(server);

  /** The settings that a test may change. */
  const SOUND = { appendfsync: 'everysec', maxmemory: '0', 'maxmemory-policy': 'noeviction' };

  const set = (settings: Readonly<Record<string, string>>) =>
    client.config('SET', ...(Object.entries(settings).flat() as [string, string]));

  /** A user with all rights but these. */
  async function userWithout(...rules: string[]): Promise<string> {
    await client.call('ACL', 'SETUSER', 'app', 'reset', 'on', '>s3cr3t', '~*', '&*', '+@all');
    await client.call('ACL', 'SETUSER', 'app', ...rules);
    return as(server.url, 'app', 's3cr3t');
  }

  beforeEach(() => set(SOUND));
  afterEach(() => client.call('ACL', 'DELUSER', 'app'));

  it('has nothing to say about a durable one, in a database of its own, too', async () => {
    for (const url of [server.url, `${server.url}/3`]) {
      const { complaints, findings } = await diagnose('--redis', url);
      expect(complaints).toEqual({});
      expect(findings.length).toBeGreaterThan(0);
    }
  });

  it.each([
    [{ 'maxmemory-policy': 'allkeys-lru' }, { eviction: 'warning' }, 'allkeys-lru'],
    [{ appendfsync: 'no' }, { persistence: 'warning' }, 'Set it to everysec'],
    [{ maxmemory: '2mb' }, { memory: 'warning' }, 'of 2.0 MiB (maxmemory)'],
  ])('reports %j', async (settings, complaints, words) => {
    if ('maxmemory' in settings) {
      await client.set('filler', 'x'.repeat(1_000_000));
      afterTest(() => client.del('filler'));
    }
    await set(settings);
    const found = await diagnose('--redis', server.url);
    expect(found).toMatchObject({ code: 1, complaints });
    expect(found.messageOf(Object.keys(complaints)[0]!)).toContain(words);
  });

  it('reports a server that rejects new operations for lack of memory', async () => {
    await set({ maxmemory: '1mb' });
    const found = await diagnose('--redis', server.url);
    expect(found.complaints).toMatchObject({ memory: 'warning', steps: 'error' });
    expect(found.messageOf('steps')).toContain('Raise maxmemory.');
  });

  it('reports a failed snapshot', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'idempotency-doctor-'));
    const [, previous] = (await client.config('GET', 'dir')) as [string, string];
    const status = async () => /rdb_last_bgsave_status:(\w+)/.exec(await client.info())?.[1];
    await set({ dir: folder });
    rmSync(folder, { recursive: true });
    await client.bgsave();
    await untilSettled(async () => (await status()) === 'err');
    await set({ dir: previous });
    const found = await diagnose('--redis', server.url);
    expect(found.complaints).toMatchObject({ persistence: 'error' });
    expect(found.messageOf('persistence')).toContain('The last snapshot failed');
    await client.bgsave();
    await untilSettled(async () => (await status()) === 'ok');
  });

  it.each([
    ['-evalsha', 'steps', 'error', 'The user requires EVALSHA'],
    ['-time', 'steps', 'error', 'The user requires EVALSHA, EVAL, TIME'],
    ['-scan', 'rights', 'warning', 'an operator can neither list, export nor erase records'],
    ['-rename', 'rights', 'warning', 'Without SETRANGE, RENAME and UNLINK'],
    ['-subscribe', 'push', 'warning', 'The user requires SUBSCRIBE'],
    ['resetchannels', 'push', 'warning', 'the channels of the key prefix'],
    ['-info', 'configuration', 'warning', 'The user may not run INFO'],
  ])('reports a user with %s, by the %s', async (rule, check, verdict, words) => {
    // A server that knows the scripts asks for no EVAL.
    await diagnose('--redis', server.url);
    const found = await diagnose('--redis', await userWithout(rule));
    expect(found.complaints).toEqual({ [check]: verdict });
    expect(found.messageOf(check)).toContain(words);
    expect(JSON.stringify(found.findings)).not.toMatch(/s3cr3t|\bapp\b/);
  });

  it('reports a user with -eval, who may run the scripts that others have loaded', async () => {
    await diagnose('--redis', server.url);
    const found = await diagnose('--redis', await userWithout('-eval'));
    expect(found.complaints).toEqual({ rights: 'error' });
    expect(found.messageOf('rights')).toContain('The user requires EVAL');
  });

  it('reports a user without the keys of the prefix, and accepts the prefix that it has', async () => {
    const url = await userWithout('resetkeys', '~shop:*', 'resetchannels', '&shop:*');
    expect((await diagnose('--redis', url)).complaints).toMatchObject({ steps: 'error' });
    expect((await diagnose('--redis', url, '--key-prefix', 'shop')).complaints).toEqual({});
  });

  it('reports a database that the server does not have', async () => {
    const found = await diagnose('--redis', `${server.url}/99`);
    expect(found.complaints).toEqual({ start: 'error' });
    expect(found.messageOf('start')).toContain('Cannot select database 99');
  });

  it('reports a server without TLS', async () => {
    const found = await diagnose('--redis', server.url.replace('redis:', 'rediss:'));
    expect(found.complaints).toEqual({ connection: 'error' });
  });

  it('reports a replica, and sends it no write', async () => {
    const primary = await RedisNode.start({ args: DURABLE });
    const replica = await RedisNode.start({
      args: [...DURABLE, '--replicaof', '127.0.0.1', String(primary.port)],
    });
    afterTest(() => Promise.all([primary.stop(), replica.stop()]));
    await untilSettled(
      async () => (await replica.info('replication', 'master_link_status')) === 'up',
    );
    // The replica says so before the primary has heard of it.
    await untilSettled(async () =>
      ((await primary.info('replication', 'slave0')) ?? '').includes('state=online'),
    );
    const found = await diagnose('--redis', replica.url);
    expect(found.complaints).toEqual({ role: 'error' });
    expect(found.findings.map(({ check }) => check)).not.toContain('steps');
    const ofPrimary = await diagnose('--redis', primary.url);
    expect(ofPrimary.messageOf('role')).toBe('A primary with 1 replica.');
  });

  it('reports a frozen server within seconds', async () => {
    const node = await RedisNode.start();
    afterTest(() => node.stop());
    node.pause();
    const { complaints } = await diagnose('--redis', node.url);
    expect(complaints).toEqual({ connection: 'error' });
  });

  it('reports a server that is too old', async () => {
    const old = closeAfterTest(await startInfoServer('redis_version:6.0.16\r\n'));
    const found = await diagnose('--redis', old.url);
    expect(found.complaints).toEqual({ start: 'error' });
    expect(found.messageOf('start')).toContain('Redis 6.0.16 is too old');
  });
});

describe('On a cluster, the doctor', () => {
  const cluster = useServer(() => RedisCluster.start({ replicas: 0, args: DURABLE }));
  const url = () => cluster.nodes[1]!.url;

  it('checks each primary, whichever server the URL is of', async () => {
    const found = await diagnose('--redis', url());
    expect(found.complaints).toEqual({});
    for (const { port } of cluster.nodes) {
      expect(found.messageOf('persistence')).toContain(`127.0.0.1:${port}: appendonly is on`);
    }
    expect(found.messageOf('connection')).toContain('3 primaries');
  });

  it.each([undefined, 'shared'])('lists the services with the key prefix %s', async (keyPrefix) => {
    const client = new Cluster(cluster.addresses);
    afterTest(() => client.disconnect());
    await runServices(() => redisStore({ client, ...(keyPrefix !== undefined && { keyPrefix }) }));
    const given = keyPrefix === undefined ? [] : ['--key-prefix', keyPrefix];
    expect((await diagnose('--redis', url(), ...given)).messageOf('services')).toBe(TWO_SERVICES);
  });

  it('names the primary that is configured wrong', async () => {
    const [first] = cluster.nodes;
    await first!.call('CONFIG', 'SET', 'maxmemory-policy', 'volatile-lru');
    const found = await diagnose('--redis', url());
    await first!.call('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    expect(found.complaints).toEqual({ eviction: 'warning' });
    expect(found.messageOf('eviction')).toContain(
      `127.0.0.1:${first!.port}: maxmemory-policy is volatile-lru`,
    );
  });

  it('names the primary whose user may not scan', async () => {
    const [first] = cluster.nodes;
    for (const node of cluster.nodes) {
      const rule = node === first ? ['-scan'] : [];
      await node.call('ACL', 'SETUSER', 'app', 'on', '>s3cr3t', '~*', '&*', '+@all', ...rule);
    }
    const found = await diagnose('--redis', as(url(), 'app', 's3cr3t'));
    for (const node of cluster.nodes) await node.call('ACL', 'DELUSER', 'app');
    expect(found.complaints).toEqual({ rights: 'warning' });
    expect(found.messageOf('rights')).toMatch(
      new RegExp(`^127\\.0\\.0\\.1:${String(first!.port)}: Without SCAN[^\n]+$`),
    );
  });

  it('reports a slot without a server', async () => {
    const owner = await cluster.uncover(0);
    await untilSettled(async () =>
      String(await cluster.nodes[1]!.call('CLUSTER', 'INFO')).includes('cluster_state:fail'),
    );
    const found = await diagnose('--redis', url());
    await cluster.assign(0, owner);
    expect(found.complaints).toMatchObject({ cluster: 'error' });
    expect(found.messageOf('cluster')).toContain('16383 of 16384');
  });
});

describe('On Sentinels', () => {
  const group = useServer(() => RedisSentinel.start({ args: DURABLE }));

  it('an operator finds a record by its key in the input, and settles it on the primary', async () => {
    const { name } = group.connection;
    const store = redisStore({ connection: { ...group.connection } });
    afterTest(() => store.close());
    const { key, lease } = await abandon(store, 'settle', randomUUID(), 1, { service: 'shop' });
    const terminal = new OperatorTerminal(group.sentinels[0]!.url);
    const query = ['--service', 'shop', '--scope', 'alice', '--operation', 'settle', '--key', '-'];
    const find = () => terminal.run('find', ['--sentinel', name, ...query, '--json'], key);
    await untilSettled(async () => (await find()).text.includes('lease ended'));
    const [found] = (await find()).objects();
    expect(found).toMatchObject({ recordKey: lease.recordKey, state: 'in_progress' });
    const ref = [`--record=${lease.recordKey}`, '--expect', `in_progress:${String(lease.fence)}`];
    const act = [...ref, '--actor', 'mia', '--reason', 'the provider has it'];
    expect(await terminal.run('complete', ['--sentinel', name, ...act])).toMatchObject({ code: 0 });
    expect(await store.inspect(lease.recordKey, { timeoutMs: 5_000 })).toMatchObject({
      state: 'completed',
    });
    await expect(terminal.run('find', query, key)).rejects.toThrow('Add --sentinel');
  });
});

describe('On Sentinels, the doctor', () => {
  const group = useServer(() => RedisSentinel.start({ args: DURABLE }));

  it('finds the primary by its name, and asks for the name', async () => {
    const { name } = group.connection;
    const [sentinel] = group.sentinels;
    const found = await diagnose('--redis', sentinel!.url, '--sentinel', name);
    expect(found.complaints).toEqual({});
    expect(found.messageOf('role')).toBe('A primary with 2 replicas.');
    await runServices(() => redisStore({ connection: { ...group.connection } }));
    const later = await diagnose('--redis', sentinel!.url, '--sentinel', name);
    expect(later.messageOf('services')).toBe(TWO_SERVICES);
    const without = await diagnose('--redis', sentinel!.url);
    expect(without.messageOf('connection')).toContain('Add --sentinel');
    const unknown = await diagnose('--redis', sentinel!.url, '--sentinel', 'unknown');
    expect(unknown.complaints).toEqual({ connection: 'error' });
  });
});
