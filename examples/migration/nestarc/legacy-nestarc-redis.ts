import { ConflictException } from '@nestjs/common';
import type { Redis } from 'ioredis';
import type { IdempotencyContext, Recover } from 'nestjs-idempotency';

/** The provider that holds the connection to the old records. */
export const OLD_REDIS = Symbol('OLD_REDIS');

/** `ttl` and `keyPrefix` of the old package. */
const TTL_SECONDS = 86_400;
const PREFIX = 'idempotency:';

const OWNER = 'nestjs-idempotency';

/** Reserves the key, if there is no record: to the old package, a request in progress. */
const RESERVED = `
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'token', ARGV[1], 'payload', ARGV[2])
  redis.call('EXPIRE', KEYS[1], ARGV[3])
end
return redis.call('HMGET', KEYS[1], 'token', 'payload')`;

interface OldRecord {
  readonly status: 'PROCESSING' | 'COMPLETED';
  /** JSON; absent if the handler returned nothing. */
  readonly responseBody?: string;
}

/**
 * Finds the outcome of a key among the records of @nestarc/idempotency 0.4 on Redis. If there is none, it reserves the key
 * there, so that a process that still runs the old package does not run the operation.
 *
 * @param scope - what the old package put before the key: method and path without query, such as `POST /payments`, or
 *   the result of its function `scope`.
 */
export function nestarcRedisRecord(
  scope: string | ((context: IdempotencyContext) => string),
): Recover {
  return async (context, services) => {
    const prefix = typeof scope === 'string' ? scope : scope(context);
    const expiresAt = new Date(Date.now() + TTL_SECONDS * 1000);
    const reserved = { status: 'PROCESSING', createdAt: new Date(), expiresAt };
    const [owner, payload] = (await services
      .get<Redis>(OLD_REDIS)
      .eval(
        RESERVED,
        1,
        `${PREFIX}${prefix}::${context.key}`,
        OWNER,
        JSON.stringify(reserved),
        TTL_SECONDS,
      )) as [string, string];
    if (owner === OWNER) return 'run';
    const { status, responseBody } = JSON.parse(payload) as OldRecord;
    if (status === 'PROCESSING') throw new ConflictException('The first request is in progress.');
    return { value: responseBody === undefined ? undefined : JSON.parse(responseBody) };
  };
}
