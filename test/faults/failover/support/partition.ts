import { Redis } from 'ioredis';
import { until } from '../../../integration/redis/support/until.js';
import type { RedisNode } from '../../../support/redis-node.js';
import type { RedisSentinel } from '../../../support/redis-sentinel.js';

/** Whom the workers log in as; Sentinels, replicas and everybody else are the default user. */
export const WORKER = { username: 'worker', password: 'of-the-workers' };

const ALL_RIGHTS = ['on', '~*', '&*', '+@all'];

/** Lets the workers in under their own name, on every server of the group. */
export async function admitWorkers({ nodes }: RedisSentinel): Promise<void> {
  const { username, password } = WORKER;
  for (const node of nodes) {
    await node.call('ACL', 'SETUSER', username, ...ALL_RIGHTS, `>${password}`);
  }
}

/**
 * A primary that only the workers which are connected can still reach: it answers neither Sentinels nor
 * replicas, and they take it for dead. Modelled by its access list, for the servers talk to each other by
 * their addresses, past any proxy; what each side sees is the same.
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

  /** Cuts the primary off; resolves when another one is in its place, on the other side. */
  static async around(group: RedisSentinel): Promise<Partition> {
    const partition = new Partition(await group.primary());
    const { admin, oldPrimary } = partition;
    await admin.call('ACL', 'SETUSER', 'default', 'off');
    await admin.call('CLIENT', 'KILL', 'USER', 'default');
    await group.untilReplaced(oldPrimary);
    return partition;
  }

  /** The sides see each other again: the Sentinels make the old primary a replica of the new one. */
  async heal(): Promise<void> {
    await this.admin.call('ACL', 'SETUSER', 'default', 'on');
    await until(async () => (await this.oldPrimary.info('replication', 'role')) === 'slave');
  }

  /** Only what it has to do with servers; the partition itself goes with the group. */
  stop(): void {
    this.admin.disconnect();
  }
}
