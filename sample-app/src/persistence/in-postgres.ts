import type { ConfigService } from '@nestjs/config';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { Pool } from 'pg';
import type { Environment } from '../config/environment.js';
import { FileLedger } from '../ledger/file-ledger.js';
import { PostgresLedger } from '../ledger/postgres-ledger.js';
import { startEmbeddedPostgres } from './embedded-postgres.js';
import { Persistence } from './persistence.js';

/** A separate schema, apart from the database's other tables. */
const SCHEMA = 'payments_sample';

/** Records and ledger in one database, so that a transaction commits both; with LEDGER_FILE the records alone. */
export async function inPostgres(config: ConfigService<Environment, true>): Promise<Persistence> {
  const embedded =
    config.get('DATABASE_URL', { infer: true }) === undefined
      ? await startEmbeddedPostgres()
      : undefined;
  const url = embedded?.url ?? config.get('DATABASE_URL', { infer: true });
  const pool = new Pool({ connectionString: url });
  // Emitted when an idle connection breaks: the next query opens another one.
  pool.on('error', () => undefined);
  const close = async () => {
    await pool.end();
    await embedded?.stop();
  };
  try {
    const store = postgresStore({ url, schema: SCHEMA });
    await store.migrate();
    const file = config.get('LEDGER_FILE', { infer: true });
    if (file !== undefined) return new Persistence({ store }, new FileLedger(file), close);
    const ledger = new PostgresLedger(pool, SCHEMA);
    await ledger.createTable();
    return new Persistence(
      { store, unitOfWork: pgUnitOfWork(pool), transaction: true },
      ledger,
      close,
    );
  } catch (error) {
    await close();
    throw error;
  }
}
