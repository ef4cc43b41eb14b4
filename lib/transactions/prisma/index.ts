export {
  TransactionAbortedError,
  TransactionControlError,
  TransactionOverError,
} from '../shared/guarded-handle.js';
export {
  prismaUnitOfWork,
  type PrismaIsolationLevel,
  type PrismaTransaction,
  type PrismaTransactionOptions,
  type TransactionalPrismaClient,
} from './prisma-unit-of-work.js';
export { fromPrisma } from './prisma-executor.js';
export type {
  PostgresConnection,
  PostgresExecutor,
  PostgresQuery,
  PostgresResult,
} from '../shared/connections.js';
