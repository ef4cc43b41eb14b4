export { TransactionAbortedError } from '../../core/transaction-errors.js';
export type {
  PrismaIsolationLevel,
  PrismaTransaction,
  PrismaTransactionOptions,
  TransactionalPrismaClient,
} from './prisma-client.js';
export { prismaUnitOfWork } from './prisma-unit-of-work.js';
