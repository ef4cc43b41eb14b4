import { afterEach, beforeEach } from '@jest/globals';
import type { Pool } from 'pg';
import { openPostgresPool } from '../../../support/postgres/postgres-pool.js';
import { usePostgres } from '../../../support/postgres/use-postgres.js';

/** A separate database for each test. */
export interface Database {
  readonly url: string;
  /** A pool of one connection, so that the next transaction gets the same one. */
  readonly pool: Pool;
  /** The committed rows of the table `effects (id text PRIMARY KEY)`. */
  effects(): Promise<string[]>;
}

export function useDatabase(): Database {
  const server = usePostgres();
  let url: string;
  let pool: Pool;
  beforeEach(async () => {
    url = await server.newDatabase();
    pool = openPostgresPool(url, { max: 1 });
    await pool.query('CREATE TABLE effects (id text PRIMARY KEY)');
  });
  afterEach(() => pool.end());
  return {
    get url() {
      return url;
    },
    get pool() {
      return pool;
    },
    async effects() {
      const { rows } = await pool.query<{ id: string }>('SELECT id FROM effects ORDER BY id');
      return rows.map(({ id }) => id);
    },
  };
}
