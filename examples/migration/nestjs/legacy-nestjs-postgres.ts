import { createHash } from 'node:crypto';
import { ConflictException } from '@nestjs/common';
import type { Recover } from 'nestjs-idempotency';
import type { Pool } from 'pg';
import { oldKey, outcomeOf, type OldPayload, type OldRecords } from './legacy-nestjs-record.js';

/** The provider that holds the pool of the old records' database. */
export const OLD_POOL = Symbol('OLD_POOL');

/** `ttl` of the old module. */
const TTL_MS = 86_400_000;

const OWNER = 'nestjs-idempotency';

/** Reserves the key, if there is no record that lives: to the old module, a request in progress with other content. */
const RESERVED = `
  INSERT INTO idempotency_keys AS old (key_hash, key, fingerprint, owner, expires_at)
  VALUES ($1, $2, '', $3, $4::bigint + $5)
  ON CONFLICT (key_hash) DO UPDATE
    SET fingerprint = '', owner = excluded.owner, response = NULL, expires_at = excluded.expires_at
    WHERE old.expires_at <= $4`;

const FIND = 'SELECT owner, response FROM idempotency_keys WHERE key_hash = $1';

interface OldRow {
  readonly owner: string | null;
  readonly response: OldPayload | null;
}

/** As `nestjsRedisRecord`, in the table of the tutorial's stores for Drizzle and TypeORM. */
export function nestjsPostgresRecord(old: OldRecords): Recover {
  return async (context, services) => {
    const pool = services.get<Pool>(OLD_POOL);
    const name = oldKey(context, old);
    const hash = createHash('sha256').update(name).digest('hex');
    // The old stores ask the clock of their process, too.
    const { rowCount } = await pool.query(RESERVED, [hash, name, OWNER, Date.now(), TTL_MS]);
    if (rowCount === 1) return 'run';
    const { rows } = await pool.query<OldRow>(FIND, [hash]);
    const [found] = rows;
    if (found?.owner === OWNER) return 'run';
    // It was released since: the retry reserves it.
    if (found === undefined) throw new ConflictException('The first request is in progress.');
    return outcomeOf(found.response, name, old);
  };
}
