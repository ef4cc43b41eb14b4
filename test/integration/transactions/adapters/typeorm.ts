import { DataSource, type EntityManager, EntitySchema } from 'typeorm';
import { fromTypeOrm, typeOrmUnitOfWork } from 'nestjs-idempotency/typeorm';
import type { UnitOfWorkUnderTest } from '../unit-of-work-suite.js';
import { onPostgres } from './on-postgres.js';

export const Effect = new EntitySchema<{ id: string }>({
  name: 'Effect',
  tableName: 'effects',
  columns: { id: { type: 'text', primary: true } },
});

export function openDataSource(url: string, poolSize: number): Promise<DataSource> {
  return new DataSource({ type: 'postgres', url, poolSize, entities: [Effect] }).initialize();
}

export const typeorm: UnitOfWorkUnderTest<EntityManager> = {
  name: 'typeOrmUnitOfWork',
  reportsLoss: true,
  canCut: true,
  open: async (url, connections) => {
    const dataSource = await openDataSource(url, connections);
    return {
      unitOfWork: onPostgres(typeOrmUnitOfWork(dataSource)),
      executor: fromTypeOrm(dataSource),
      insert: (manager, id) => manager.insert(Effect, { id }),
      close: () => dataSource.destroy(),
    };
  },
};
