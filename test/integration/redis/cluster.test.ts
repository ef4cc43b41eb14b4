import { describe, expect, it } from '@jest/globals';
import { Cluster } from 'ioredis';
import { RedisIdempotencyStore } from 'nestjs-idempotency/redis';
import { StoreUnavailableError } from '../../support/internals/core.js';
import { RedisCluster } from '../../support/redis/redis-cluster.js';
import { healthOf } from '../../support/stores/health-of.js';
import {
  beginCommand,
  completeCommand,
  extendCommand,
  leaseOf,
  newRecordKey,
  releaseCommand,
  TIMEOUT_MS,
} from '../../support/stores/commands.js';
import { userClient } from './support/fixture.js';
import { useServer } from '../../support/servers/use-server.js';
import { until } from '../../support/waiting/until.js';

const servers = useServer(() => RedisCluster.start({ replicas: 0 }));
const cluster = useServer(
  () => new Cluster(servers.addresses),
  (used) => used.disconnect(),
);

describe('On a cluster', () => {
  it('records are distributed over the nodes, and each completes its life cycle', async () => {
    const store = new RedisIdempotencyStore({ client: cluster });
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
    const store = new RedisIdempotencyStore({ client: cluster });
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
    const health = healthOf(new RedisIdempotencyStore({ client: cluster }));
    for (const node of servers.nodes) {
      const scripts = () => node.info('commandstats', 'cmdstat_evalsha');
      const before = await scripts();
      await until(async () => {
        const options = { probe: 'write', maxAgeMs: 0, timeoutMs: TIMEOUT_MS } as const;
        expect(await health.check(options)).toMatchObject({ status: 'up', store: 'redis' });
        return (await scripts()) !== before;
      });
    }
  });

  it('the start checks ask one of the primaries', async () => {
    const store = new RedisIdempotencyStore({ client: cluster });
    expect(await store.open()).toEqual([expect.objectContaining({ code: 'redis_not_durable' })]);
  });

  it('a client of one node is unavailable for the records of other nodes', async () => {
    const [node] = servers.nodes;
    const store = new RedisIdempotencyStore({ client: userClient(node!.url) });
    let recordKey = newRecordKey();
    const ownerOf = async () => servers.primaryOf(await servers.slotOf(`idem:1:${recordKey}`));
    while ((await ownerOf()) === node) recordKey = newRecordKey();
    const attempt = store.begin(beginCommand({ recordKey, timeoutMs: 1_000 }));
    await expect(attempt).rejects.toThrow(StoreUnavailableError);
    await expect(attempt).rejects.toThrow('MOVED');
  });
});
