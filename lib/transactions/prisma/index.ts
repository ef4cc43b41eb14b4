export { TransactionAbortedError } from '../shared/guarded-handle.js';
export {
  prismaUnitOfWork,
  type PrismaIsolationLevel,
  type PrismaTransaction,
  type PrismaTransactionOptions,
  type TransactionalPrismaClient,
} from './prisma-unit-of-work.js';
