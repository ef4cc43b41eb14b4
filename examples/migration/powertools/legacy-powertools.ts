import { createHash } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { IdempotencyContext, Recover } from 'nestjs-idempotency';

/** The provider that holds the connection to the old records. */
export const OLD_REDIS = Symbol('OLD_REDIS');

/** `expiresAfterSeconds` of the old configuration. */
const TTL_SECONDS = 3_600;

interface OldRecord {
  readonly status: 'INPROGRESS' | 'COMPLETED';
  /** In seconds since the epoch. */
  readonly expiration: number;
  /** In milliseconds since the epoch. */
  readonly in_progress_expiration?: number;
  readonly data?: unknown;
  readonly by?: string;
}

/**
 * Finds the result of a key among the records of Powertools' CachePersistenceLayer. If there is none, it reserves the key
 * there, so that a function that still runs on Powertools does not run the operation.
 *
 * @param prefix - `keyPrefix`, or the name of the Lambda function.
 * @param selected - what `eventKeyJmesPath` selected; by default the key itself. The keys of its objects must be sorted.
 */
export function powertoolsRecord(
  prefix: string,
  selected: (context: IdempotencyContext) => unknown = ({ key }) => key,
): Recover {
  return async (context, services) => {
    const redis = services.get<Redis>(OLD_REDIS);
    const hash = createHash('md5')
      .update(JSON.stringify(selected(context)))
      .digest('base64');
    const name = `${prefix}#${hash}`;
    const expiration = Math.floor(Date.now() / 1000) + TTL_SECONDS;
    const reserved: OldRecord = {
      status: 'INPROGRESS',
      expiration,
      in_progress_expiration: expiration * 1000,
      by: 'nestjs-idempotency',
    };
    if ((await redis.set(name, JSON.stringify(reserved), 'EX', TTL_SECONDS, 'NX')) === 'OK') {
      return 'run';
    }
    // Without a record, it has expired since: the retry reserves it.
    const found = JSON.parse((await redis.get(name)) ?? '{"status":"INPROGRESS"}') as OldRecord;
    if (found.by === reserved.by) return 'run';
    // Also after a timeout of the Lambda function, when it is unknown what it has done.
    if (found.status !== 'COMPLETED') throw new Error('The first call is in progress.');
    return { value: found.data };
  };
}
