import { PostgresUnitOfWork, type UnitOfWork } from 'nestjs-idempotency/transactions';

/** What a library that has more than one database has chosen for PostgreSQL. */
export function onPostgres<Handle>(unitOfWork: UnitOfWork<Handle>): PostgresUnitOfWork<Handle> {
  if (unitOfWork instanceof PostgresUnitOfWork) return unitOfWork as PostgresUnitOfWork<Handle>;
  throw new Error('It is not a PostgresUnitOfWork.');
}
