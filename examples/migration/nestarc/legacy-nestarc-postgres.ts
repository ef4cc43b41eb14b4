import { ConflictException } from '@nestjs/common';
import type { IdempotencyContext, Recover } from 'nestjs-idempotency';
import type { Pool } from 'pg';

/** The provider that holds the pool of the old records' database. */
export const OLD_POOL = Symbol('OLD_POOL');

/** The token of reservations. The old package draws its own at random. */
const OWNER = '00000000-0000-0000-0000-000000000000';

/** Reserves the key, if there is no record that lives: to the old package, a request in progress. */
const RESERVED = `
  INSERT INTO idempotency_records AS old (key, token, status, expires_at)
  VALUES ($1, $2, 'PROCESSING', now() + interval '1 day')
  ON CONFLICT (key) DO UPDATE
    SET token = excluded.token, status = 'PROCESSING', response_code = NULL, response_body = NULL,
        response_headers = NULL, fingerprint = NULL, expires_at = excluded.expires_at
    WHERE old.expires_at <= now()`;

const FIND = `
  SELECT token, status, response_body AS body FROM idempotency_records
  WHERE key = $1 AND expires_at > now()`;

interface OldRecord {
  readonly token: string;
  readonly status: 'PROCESSING' | 'COMPLETED';
  /** JSON; null if the handler returned nothing. */
  readonly body: string | null;
}

/** As `nestarcRedisRecord`, on PostgreSQL. */
export function nestarcPostgresRecord(
  scope: string | ((context: IdempotencyContext) => string),
): Recover {
  return async (context, services) => {
    const pool = services.get<Pool>(OLD_POOL);
    const key = `${typeof scope === 'string' ? scope : scope(context)}::${context.key}`;
    const { rowCount } = await pool.query(RESERVED, [key, OWNER]);
    if (rowCount === 1) return 'run';
    const { rows } = await pool.query<OldRecord>(FIND, [key]);
    const [found] = rows;
    if (found?.token === OWNER) return 'run';
    // Without a record, it has expired since: the retry reserves it.
    if (found?.status !== 'COMPLETED') {
      throw new ConflictException('The first request is in progress.');
    }
    return { value: found.body === null ? undefined : JSON.parse(found.body) };
  };
}
