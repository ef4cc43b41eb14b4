import type { Pool } from 'pg';
import type { Effect } from './worker/lines.js';

/** What transactional workers write, instead of to the file. Nothing in it is unique: the oracle counts. */
export async function createEffectsTable(pool: Pool): Promise<void> {
  await pool.query(`
    CREATE TABLE effects (
      key text NOT NULL,
      attempt integer NOT NULL,
      fence bigint NOT NULL,
      is_takeover boolean NOT NULL,
      execution uuid NOT NULL,
      worker text NOT NULL,
      at bigint NOT NULL
    )`);
}

/** What has been committed, over a connection that no fault gets at. */
export async function readEffects(pool: Pool): Promise<Effect[]> {
  const { rows } = await pool.query<Effect>(`
    SELECT key, attempt, fence::float8, is_takeover AS "isTakeover", execution, worker, at::float8
    FROM effects`);
  return rows;
}
