import { PrismaPg } from '@prisma/adapter-pg';
import { fromPrisma, prismaUnitOfWork } from 'nestjs-idempotency/prisma';
import {
  type EffectsClient,
  type EffectsTransaction,
  loadPrismaClient,
} from '../../../support/postgres/prisma/generate-client.js';
import type { UnitOfWorkUnderTest } from '../unit-of-work-suite.js';
import { onPostgres } from './on-postgres.js';

export async function openClient(url: string, connections: number): Promise<EffectsClient> {
  const PrismaClient = await loadPrismaClient();
  return new PrismaClient({ adapter: new PrismaPg({ connectionString: url, max: connections }) });
}

export const prisma: UnitOfWorkUnderTest<EffectsTransaction> = {
  name: 'prismaUnitOfWork',
  reportsLoss: false,
  canCut: false,
  open: async (url, connections) => {
    const client = await openClient(url, connections);
    return {
      unitOfWork: onPostgres(prismaUnitOfWork(client)),
      executor: fromPrisma(client),
      insert: async (transaction, id) => transaction.effect.create({ data: { id } }),
      close: () => client.$disconnect(),
    };
  },
};
