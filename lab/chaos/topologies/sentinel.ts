import { RedisSentinel } from '../../../test/support/redis/redis-sentinel.js';
import { durabilityOf } from './durability.js';
import type { Topology } from './topology.js';

/** A primary and two replicas, watched by three Sentinels. */
export const sentinel: Topology = {
  async start(plan) {
    const group = await RedisSentinel.start();
    const version = await (await group.primary()).info('server', 'redis_version');
    const options = durabilityOf(plan);
    return {
      servers: { Redis: version ?? 'unknown' },
      ways: [],
      storeFor: () => ({ kind: 'sentinel', ...group.connection, options }),
      async command(...words) {
        const [name = '', ...args] = words;
        await (await group.primary()).call(name, ...args);
      },
      async failover(kind) {
        if (kind === 'planned') {
          await group.failover();
        } else {
          const old = await group.primary();
          await old.kill();
          await group.untilReplaced(old);
          await group.restart(old);
        }
        await group.untilHealthy();
      },
      stop: () => group.stop(),
    };
  },
};
