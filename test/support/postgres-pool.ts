import { Pool, type PoolConfig } from 'pg';

/** A pool as an application would have it: it survives that an idle connection breaks. */
export function openPostgresPool(url: string, config: PoolConfig = {}): Pool {
  const pool = new Pool({ connectionString: url, ...config });
  pool.on('error', () => undefined);
  return pool;
}
