import { Pool, type PoolConfig } from 'pg';

/** With what the types of pg lack. */
export type TestedPoolConfig = PoolConfig & { readonly binary?: boolean };

/** A pool as an application would have it: it survives a broken idle connection. */
export function openPostgresPool(url: string, config: TestedPoolConfig = {}): Pool {
  const pool = new Pool({ connectionString: url, ...config });
  pool.on('error', () => undefined);
  return pool;
}
