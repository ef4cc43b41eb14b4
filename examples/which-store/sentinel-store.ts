import { redisStore } from 'nestjs-idempotency/redis';

/** Begin and completion wait until one replica has them. `name` is that of the primary, as the Sentinels know it. */
export function sentinelStore(sentinels: { host: string; port: number }[], name: string) {
  return redisStore({
    connection: { sentinels, name },
    waitReplicas: { count: 1, timeout: '100ms' },
  });
}
