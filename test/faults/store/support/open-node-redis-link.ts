import type { OwnConnectionOptions } from 'nestjs-idempotency/redis';
import {
  openNodeRedis,
  ownNodeRedisLink,
  type RedisLink,
} from '../../../support/internals/redis.js';

/** The same by node-redis: `socketTimeout` is when a stalled connection is replaced. */
export async function openLink({
  url,
  connection,
  onConnectionError,
}: OwnConnectionOptions): Promise<RedisLink> {
  const opened = await openNodeRedis({ url, onConnectionError });
  const { socketTimeout } = connection ?? {};
  return ownNodeRedisLink(
    socketTimeout === undefined ? opened : { ...opened, stallTimeoutMs: socketTimeout },
  );
}
