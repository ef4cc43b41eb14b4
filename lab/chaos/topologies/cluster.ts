import type { Random } from '../../../test/integration/differential/random.js';
import { RedisCluster } from '../../../test/support/redis/redis-cluster.js';
import { durabilityOf } from './durability.js';
import type { FailoverKind, Topology } from './topology.js';

/** What the documentation recommends for the nodes of a cluster. */
const CONNECTION = { connectTimeout: 2_000, socketTimeout: 1_000 };

/** Three primaries with a replica each. */
export const cluster: Topology = {
  async start(plan) {
    const servers = await RedisCluster.start();
    const version = await servers.nodes[0]!.info('server', 'redis_version');
    const options = { ...durabilityOf(plan), connection: CONNECTION };
    const alone = oneAtATime();
    return {
      servers: { Redis: version ?? 'unknown' },
      ways: [],
      storeFor: () => ({ kind: 'cluster', nodes: servers.addresses, options }),
      async command(...words) {
        const [name = '', ...args] = words;
        for (const node of await servers.primaries()) await node.call(name, ...args);
      },
      failover: (kind, random) => alone(() => failOver(servers, kind, random)),
      migrateSlot: (random) => alone(() => migrateSlot(servers, random)),
      stop: () => servers.stop(),
    };
  },
};

async function failOver(servers: RedisCluster, kind: FailoverKind, random: Random) {
  const old = random.pick(await servers.primaries());
  if (kind === 'planned') {
    await servers.failover(old);
  } else {
    await old.kill();
    // Half of the failovers are by election, half by command.
    if (random.chance(1 / 2)) await servers.untilReplaced(old);
    else await servers.failover(old, 'takeover');
    await old.start();
  }
  await servers.untilHealthy();
}

async function migrateSlot(servers: RedisCluster, random: Random) {
  const primaries = await servers.primaries();
  const from = random.pick(primaries);
  const key = await from.call('RANDOMKEY');
  if (typeof key !== 'string') return;
  const slot = await servers.slotOf(key);
  const to = random.pick(primaries.filter((node) => node !== from));
  await servers.startMigration(slot, from, to);
  await servers.finishMigration(slot, from, to);
}

/** Two changes of a cluster at a time get into each other's way. */
function oneAtATime() {
  let last: Promise<unknown> = Promise.resolve();
  return <Result>(work: () => Promise<Result>): Promise<Result> => {
    const next = last.then(work);
    last = next.catch(() => undefined);
    return next;
  };
}
