import { ConflictException } from '@nestjs/common';
import type { Redis } from 'ioredis';
import type { Recover } from 'nestjs-idempotency';

/** The provider that holds the connection to the old records. */
export const OLD_REDIS = Symbol('OLD_REDIS');

const TTL_SECONDS = 86_400;

/** To the old interceptor, a request in progress. */
const RESERVED = '{"state":"processing","by":"nestjs-idempotency"}';

/**
 * Finds the outcome of a key among the records of the old interceptor. If there is none, it reserves the key there, so that
 * a process that still has the old interceptor does not run the operation.
 */
export const ownRecord: Recover = async ({ key }, services) => {
  const redis = services.get<Redis>(OLD_REDIS);
  const name = `idem:${key}`;
  if ((await redis.set(name, RESERVED, 'EX', TTL_SECONDS, 'NX')) === 'OK') return 'run';
  const found = await redis.get(name);
  if (found === RESERVED) return 'run';
  // Without a record, it has expired since: the retry reserves it.
  const { state, body } = JSON.parse(found ?? RESERVED) as { state: string; body?: unknown };
  if (state === 'processing') throw new ConflictException('The first request is in progress.');
  return { value: body };
};
