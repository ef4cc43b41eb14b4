import { Cluster } from 'ioredis';
import { redisStore } from 'nestjs-idempotency/redis';

interface Address {
  readonly host: string;
  readonly port: number;
}

// #region sentinel
/** One primary, which the Sentinels know as "payments", and two replicas. */
export function storeBehindSentinels(sentinels: Address[]) {
  return redisStore({
    connection: { sentinels, name: 'payments', password: process.env.REDIS_PASSWORD },
    waitReplicas: { count: 2, timeout: '100ms' },
  });
}
// #endregion

// #region cluster
/** The application closes the client, in `onApplicationShutdown`. */
export function clusterClient(nodes: Address[]): Cluster {
  const client = new Cluster(nodes, {
    enableAutoPipelining: true,
    enableOfflineQueue: false,
    retryDelayOnClusterDown: 0,
    redisOptions: { connectTimeout: 2_000, socketTimeout: 1_000 },
  });
  // Commands report their own errors.
  client.on('error', () => undefined);
  return client;
}

export const storeOnCluster = (client: Cluster) => redisStore({ client });
// #endregion
