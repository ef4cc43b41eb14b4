import { Pool } from 'pg';

export function openPool(): Pool {
  const pool = new Pool({ connectionString: process.env.DATABASE_URL, max: 20 });
  pool.on('connect', (client) => client.on('error', () => undefined));
  pool.on('error', () => undefined);
  return pool;
}
