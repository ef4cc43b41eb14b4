import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import { RedisIdempotencyStore } from 'nestjs-idempotency/redis';
import { StoreUnavailableError } from '../../../lib/core/errors.js';
import { freePort } from '../../support/free-port.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import {
  beginCommand,
  completeCommand,
  extendCommand,
  leaseOf,
  newRecordKey,
  releaseCommand,
  TIMEOUT_MS,
} from './support/commands.js';
import { userClient } from './support/fixture.js';
import { until } from './support/until.js';

const SLOTS_PER_NODE = Math.ceil(16_384 / 3);

let servers: RedisServer[];
let nodes: Redis[];
let cluster: Cluster;

/** Three primaries, each with a third of the slots. */
beforeAll(async () => {
  servers = await Promise.all(
    [0, 1, 2].map(async () => {
      const bus = String(await freePort());
      return startRedis({ args: ['--cluster-enabled', 'yes', '--cluster-port', bus] });
    }),
  );
  nodes = servers.map(({ url }) => new Redis(url));
  for (const [i, node] of nodes.entries()) {
    const last = Math.min((i + 1) * SLOTS_PER_NODE, 16_384) - 1;
    await node.cluster('ADDSLOTSRANGE', i * SLOTS_PER_NODE, last);
  }
  for (const { port } of servers.slice(1)) {
    const [, bus] = /@(\d+)/.exec(await nodeAt(port).cluster('NODES').then(String))!;
    await nodes[0]!.call('CLUSTER', 'MEET', '127.0.0.1', String(port), bus!);
  }
  await until(async () => {
    const infos = await Promise.all(nodes.map((node) => node.cluster('INFO')));
    return infos.every((info) => /cluster_state:ok[^]*cluster_known_nodes:3/.test(info));
  });
  cluster = new Cluster(servers.map(({ port }) => ({ host: '127.0.0.1', port })));
});
afterAll(async () => {
  cluster.disconnect();
  for (const node of nodes) node.disconnect();
  await Promise.all(servers.map((server) => server.stop()));
});

function nodeAt(port: number): Redis {
  return nodes[servers.findIndex((server) => server.port === port)]!;
}

describe('On a cluster', () => {
  it('records spread over the nodes, and each goes through its life', async () => {
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
    for (const node of nodes) expect(await node.dbsize()).toBeGreaterThan(0);
  });

  it('a record in a slot on its way to another node follows it', async () => {
    const store = new RedisIdempotencyStore({ client: cluster });
    const begin = beginCommand();
    const key = `idem:1:${begin.recordKey}`;
    const slot = await nodes[0]!.cluster('KEYSLOT', key);
    const from = Math.floor(slot / SLOTS_PER_NODE);
    const to = (from + 1) % 3;
    const id = (i: number) => nodes[i]!.cluster('MYID').then(String);
    await nodes[to]!.cluster('SETSLOT', slot, 'IMPORTING', await id(from));
    await nodes[from]!.cluster('SETSLOT', slot, 'MIGRATING', await id(to));
    expect((await store.begin(begin)).kind).toBe('acquired');
    expect((await store.begin(begin)).kind).toBe('owned');
    expect(await nodes[from]!.info('errorstats')).toContain('ASK');
    await nodes[to]!.cluster('SETSLOT', slot, 'NODE', await id(to));
    await nodes[from]!.cluster('SETSLOT', slot, 'NODE', await id(to));
    expect((await store.begin(begin)).kind).toBe('owned');
  });

  it('the start checks ask one of the primaries', async () => {
    const store = new RedisIdempotencyStore({ client: cluster });
    expect(await store.open()).toEqual([expect.objectContaining({ code: 'redis_not_durable' })]);
  });

  it('a client of one node only is unavailable for the others records', async () => {
    const store = new RedisIdempotencyStore({ client: userClient(servers[0]!.url) });
    let recordKey = newRecordKey();
    const slotOf = () => nodes[0]!.cluster('KEYSLOT', `idem:1:${recordKey}`);
    while ((await slotOf()) < SLOTS_PER_NODE) recordKey = newRecordKey();
    const attempt = store.begin(beginCommand({ recordKey, timeoutMs: 100 }));
    await expect(attempt).rejects.toThrow(StoreUnavailableError);
    await expect(attempt).rejects.toThrow('MOVED');
  });
});
