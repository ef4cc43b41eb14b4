import type { IdempotencyModuleOptions } from 'nestjs-idempotency';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import { postgresStore } from 'nestjs-idempotency/postgres';
import type { Pool } from 'pg';

/** The options of a consumer, in the test and in its process. */
export const consumerOptions = (url: string, pool: Pool): IdempotencyModuleOptions => ({
  store: postgresStore({ url }),
  unitOfWork: pgUnitOfWork(pool),
  service: 'analytics',
  lease: { duration: '1s' },
  // A busy machine must not look like a database that is down.
  storeErrors: { commandTimeout: '20s', saveTimeout: '20s' },
});
