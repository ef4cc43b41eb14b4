import { ConflictException, HttpException } from '@nestjs/common';
import type { Redis } from 'ioredis';
import type { IdempotencyContext, Recover } from 'nestjs-idempotency';

/** The provider that holds the connection to the old records. */
export const OLD_REDIS = Symbol('OLD_REDIS');

/** `cacheTTLMS` and `cacheKeyPrefix` of the old package. */
const TTL_MS = 86_400_000;
const PREFIX = 'node-idempotency';

/** To the old package, a request in progress: it responds with 409. */
const RESERVED = '{"status":"IN_PROGRESS","by":"nestjs-idempotency"}';

interface OldRecord {
  readonly status: 'IN_PROGRESS' | 'COMPLETE';
  readonly response?: { readonly body?: unknown; readonly error?: OldError };
}

interface OldError {
  readonly response?: string | Record<string, unknown>;
  readonly status?: number;
  readonly message?: string;
}

/**
 * Finds the outcome of a key among the records of @node-idempotency/nestjs. If there is none, it reserves the key there, so
 * that a process that still runs the old package does not run the operation.
 *
 * @param path - path and query of the URL; where they contain a parameter, a function that takes it from the scope.
 */
export function nodeIdempotencyRecord(
  method: string,
  path: string | ((context: IdempotencyContext) => string),
): Recover {
  return async (context, services) => {
    const redis = services.get<Redis>(OLD_REDIS);
    const url = typeof path === 'string' ? path : path(context);
    const name = `${PREFIX}:${method}:${url}:${context.key}`;
    if ((await redis.set(name, RESERVED, 'PX', TTL_MS, 'NX')) === 'OK') return 'run';
    const found = await redis.get(name);
    if (found === RESERVED) return 'run';
    // Without a record, it has expired since: the retry reserves it.
    const { status, response } = JSON.parse(found ?? RESERVED) as OldRecord;
    if (status === 'IN_PROGRESS') throw new ConflictException('The first request is in progress.');
    if (response?.error !== undefined) throw exceptionOf(response.error);
    return { value: response?.body };
  };
}

/** The old package stores errors, also those of 5xx, and throws them again. */
function exceptionOf({ response, status = 500, message }: OldError): HttpException {
  return new HttpException(response ?? message ?? 'Internal Server Error', status);
}
