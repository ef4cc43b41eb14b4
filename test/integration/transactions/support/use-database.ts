import { afterEach, beforeAll, beforeEach } from '@jest/globals';
import type { Pool } from 'pg';
import { openPostgresPool } from '../../../support/postgres/postgres-pool.js';
import { usePostgres } from '../../../support/postgres/use-postgres.js';

/** A database whose table `effects (id text PRIMARY KEY)` is empty when a test begins. */
export interface Database {
  readonly url: string;
  /** A pool of one connection, so that the next transaction gets the same one. */
  readonly pool: Pool;
  /** The committed rows of that table. */
  effects(): Promise<string[]>;
}

export function useDatabase(): Database {
  const server = usePostgres();
  let url: string;
  let pool: Pool;
  beforeAll(async () => {
    url = await server.newDatabase();
    const creator = openPostgresPool(url);
    await creator.query('CREATE TABLE effects (id text PRIMARY KEY)');
    await creator.end();
  });
  beforeEach(async () => {
    pool = openPostgresPool(url, { max: 1 });
    await pool.query('DELETE FROM effects');
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
