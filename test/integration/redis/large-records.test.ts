import { describe, expect, it } from '@jest/globals';
import { Cluster } from 'ioredis';
import { redisStore } from 'nestjs-idempotency/redis';
import type { IdempotencyStore, Lease, Outcome } from 'nestjs-idempotency/store';
import { afterTest } from '../../support/jest/after-test.js';
import { RedisCluster } from '../../support/redis/redis-cluster.js';
import { startRedis } from '../../support/redis/redis-server.js';
import { useServer } from '../../support/servers/use-server.js';
import { beginCommand, completeCommand, leaseOf } from '../../support/stores/commands.js';
import { until } from '../../support/waiting/until.js';
import { ownStore, userClient } from './support/fixture.js';

const timeoutMs = 10_000;
const HEADER = '{"status":201}';
const BYTES = 65_536;
const completion = (text = 'outcome ') =>
  completeCommand({ timeoutMs, outcome: { header: HEADER, body: Buffer.alloc(BYTES, text) } });

async function acquire(store: IdempotencyStore, changes = {}): Promise<Lease> {
  const begin = beginCommand({ timeoutMs, ...changes });
  const reply = await store.begin(begin);
  if (!('fence' in reply)) throw new Error(`The begin returned ${reply.kind}.`);
  return leaseOf(begin, reply.fence);
}

/** Whether a retry gets it, byte for byte. */
async function isReplayed(
  store: IdempotencyStore,
  { recordKey }: Lease,
  { outcome }: { readonly outcome: Outcome },
): Promise<boolean> {
  const reply = await store.begin(beginCommand({ recordKey, timeoutMs }));
  if (reply.kind !== 'completed') throw new Error(`The begin returned ${reply.kind}.`);
  return Buffer.from(outcome.body).equals(reply.outcome.body);
}

describe('A large outcome on a Cluster', () => {
  const cluster = useServer(() => RedisCluster.start({ replicas: 0 }));

  async function open(keyPrefix = '') {
    const client = new Cluster(cluster.addresses, { keyPrefix });
    client.on('error', () => undefined);
    afterTest(() => client.disconnect());
    await until(() => client.status === 'ready');
    for (const node of cluster.nodes) await node.call('CONFIG', 'RESETSTAT');
    return redisStore({ client });
  }

  /** How many records were staged. */
  async function renames(): Promise<number> {
    const stats = cluster.nodes.map((node) => node.info('commandstats', 'cmdstat_rename'));
    const calls = (await Promise.all(stats)).map((found) => /calls=(\d+)/.exec(found ?? '')?.[1]);
    return calls.reduce((sum, count) => sum + Number(count ?? 0), 0);
  }

  const RECORDS = 12;

  async function storeSome(store: IdempotencyStore): Promise<void> {
    for (let i = 0; i < RECORDS; i += 1) {
      const lease = await acquire(store);
      expect(await store.complete(lease, completion())).toEqual({ kind: 'ok' });
      expect(await isReplayed(store, lease, completion())).toBe(true);
    }
  }

  it.each(['', 'app:', '{app}:', 'a{p}{p}:', '{a}{', '}{a}'])(
    'is staged in the slot of its record, with the prefix "%s" of the client',
    async (keyPrefix) => {
      await storeSome(await open(keyPrefix));
      expect(await renames()).toBe(RECORDS);
    },
  );

  it.each(['a{p:', 'a}p:', '}{', '{}a:', '{}{a}'])(
    'is stored by a script where no name is sure to be in that slot, with the prefix "%s"',
    async (keyPrefix) => {
      await storeSome(await open(keyPrefix));
      expect(await renames()).toBe(0);
    },
  );

  it('leaves one key', async () => {
    for (const node of cluster.nodes) await node.call('FLUSHALL');
    await storeSome(await open());
    const sizes = await Promise.all(cluster.nodes.map((node) => node.call('DBSIZE')));
    expect(sizes.reduce<number>((sum, size) => sum + Number(size), 0)).toBe(RECORDS);
  });

  it('is stored while its slot moves to another server, and after it', async () => {
    const store = await open();
    for (const isMoved of [false, true]) {
      const lease = await acquire(store);
      const slot = await cluster.slotOf(`idem:1:${lease.recordKey}`);
      const from = await cluster.primaryOf(slot);
      const to = (await cluster.primaries()).find((node) => node !== from)!;
      await cluster.startMigration(slot, from, to);
      if (isMoved) {
        await cluster.moveKeys(slot, from, to, 100);
        await cluster.finishMigration(slot, from, to);
      }
      expect(await store.complete(lease, { ...completion(), timeoutMs: 2_000 })).toEqual({
        kind: 'ok',
      });
      expect(await isReplayed(store, lease, completion())).toBe(true);
      if (!isMoved) await cluster.finishMigration(slot, from, to);
    }
  });
});

describe('A late owner whose large outcome is as long as the stored one', () => {
  const server = useServer(startRedis);
  const kinds: [string, () => IdempotencyStore][] = [
    ['of the store', () => ownStore(server.url)],
    ['of the application', () => redisStore({ client: userClient(server.url) })],
  ];

  it.each(kinds)('does not replace it, on a connection %s', async (_, open) => {
    const [one, other] = [open(), open()];
    const late = await acquire(one, { leaseMs: 1 });
    const { recordKey } = late;
    await until(async () => (await one.inspect(recordKey, { timeoutMs }))!.leaseLeftMs! < 0);
    const owner = await acquire(other, { recordKey });
    expect(await other.complete(owner, completion('winner! '))).toEqual({ kind: 'ok' });
    expect(await one.complete(late, completion('latecomr'))).toMatchObject({ kind: 'superseded' });
    expect(await isReplayed(one, late, completion('winner! '))).toBe(true);
    expect(await userClient(server.url).keys(`*${recordKey}*`)).toHaveLength(1);
  });
});
