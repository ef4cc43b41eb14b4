import type { ConfigService } from '@nestjs/config';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import type { Environment } from './environment.js';

/** The module-wide options: where records live and how long an attempt may work on one. */
export function idempotencyOptions(config: ConfigService<Environment, true>) {
  const url = config.get('REDIS_URL', { infer: true });
  return {
    store:
      config.get('STORE', { infer: true }) === 'redis' && url !== undefined
        ? redisStore({ url })
        : memoryStore(),
    leaseMs: config.get('LEASE_MS', { infer: true }),
    maxExecutionMs: config.get('MAX_EXECUTION_MS', { infer: true }),
    commandTimeoutMs: config.get('COMMAND_TIMEOUT_MS', { infer: true }),
  };
}
