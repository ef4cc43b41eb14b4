import { Redis } from 'ioredis';
import { until } from '../../../support/waiting/until.js';
import type { RedisNode } from '../../../support/redis/redis-node.js';
import type { RedisSentinel } from '../../../support/redis/redis-sentinel.js';

/** The user name of the workers; Sentinels, replicas and all others are the default user. */
export const WORKER = { username: 'worker', password: 'of-the-workers' };

const ALL_RIGHTS = ['on', '~*', '&*', '+@all'];

/** Admits the workers under their own name, on every server of the group. */
export async function admitWorkers({ nodes }: RedisSentinel): Promise<void> {
  const { username, password } = WORKER;
  for (const node of nodes) {
    await node.call('ACL', 'SETUSER', username, ...ALL_RIGHTS, `>${password}`);
  }
}

/**
 * A primary that only the connected workers can still reach: it answers neither Sentinels nor replicas, which
 * consider it dead. Modelled by its access list, because the servers talk to each other by their addresses,
 * past any proxy; each side sees the same.
 */
export class Partition {
  private readonly admin: Redis;

  private constructor(readonly oldPrimary: RedisNode) {
    this.admin = new Redis(oldPrimary.url, {
      ...WORKER,
      commandTimeout: 2_000,
      disconnectTimeout: 100,
    });
  }

  /** Isolates the primary; resolves when another one is in its place, on the other side. */
  static async around(group: RedisSentinel): Promise<Partition> {
    const partition = new Partition(await group.primary());
    const { admin, oldPrimary } = partition;
    await admin.call('ACL', 'SETUSER', 'default', 'off');
    await admin.call('CLIENT', 'KILL', 'USER', 'default');
    await group.untilReplaced(oldPrimary);
    return partition;
  }

  /** Reunites the sides: the Sentinels make the old primary a replica of the new one. */
  async heal(): Promise<void> {
    await this.admin.call('ACL', 'SETUSER', 'default', 'on');
    await until(async () => (await this.oldPrimary.info('replication', 'role')) === 'slave');
  }

  /** Only its part in the servers; the partition itself ends with the group. */
  stop(): void {
    this.admin.disconnect();
  }
}
