import type { UnitOfWork } from 'nestjs-idempotency/transactions';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import { Pool } from 'pg';
import type { Mutant } from './mutants.js';

/** The application's own transactions, over a pool of its own. */
export function openUnitOfWork(url: string, mutant: Mutant | undefined): UnitOfWork {
  const pool = new Pool({ connectionString: url });
  // An idle connection that breaks must not end the process.
  pool.on('error', () => undefined);
  const unitOfWork = pgUnitOfWork(pool);
  return mutant?.unitOfWork?.(unitOfWork, pool) ?? unitOfWork;
}
