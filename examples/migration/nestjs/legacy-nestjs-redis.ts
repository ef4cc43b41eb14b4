import type { Redis } from 'ioredis';
import type { Recover } from 'nestjs-idempotency';
import { oldKey, outcomeOf, type OldPayload, type OldRecords } from './legacy-nestjs-record.js';

/** The provider that holds the connection to the old records. */
export const OLD_REDIS = Symbol('OLD_REDIS');

/** `ttl` of the old module, and the prefix of its store. */
const TTL_MS = 86_400_000;
const PREFIX = 'idem:';

const OWNER = 'nestjs-idempotency';

/** Reserves the key, if there is no record: to the old module, a request in progress with other content. */
const RESERVED = `
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'state', 'in-flight', 'fp', '', 'owner', ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return redis.call('HMGET', KEYS[1], 'owner', 'state', 'resp')`;

/**
 * Finds the outcome of a key among the records that the store of Nest's tutorial for `@nestjs/idempotency` 0.0.3 has written
 * to Redis. If there is none, it reserves the key there, so that a process that still runs the old module does not run the
 * operation.
 */
export function nestjsRedisRecord(old: OldRecords): Recover {
  return async (context, services) => {
    const name = oldKey(context, old);
    const [owner, state, response] = (await services
      .get<Redis>(OLD_REDIS)
      .eval(RESERVED, 1, PREFIX + name, OWNER, TTL_MS)) as (string | null)[];
    if (owner === OWNER) return 'run';
    const isCompleted = state === 'completed' && typeof response === 'string';
    return outcomeOf(isCompleted ? (JSON.parse(response) as OldPayload) : null, name, old);
  };
}
