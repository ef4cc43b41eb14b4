import type { EntityManager } from '@mikro-orm/postgresql';
import { mikroOrmUnitOfWork } from 'nestjs-idempotency/mikro-orm';
import type { UnitOfWorkUnderTest } from '../unit-of-work-suite.js';
import { onPostgres } from './on-postgres.js';

type Package = Pick<typeof import('@mikro-orm/postgresql'), 'EntitySchema' | 'MikroORM'>;

/** @param load - one of its versions. */
export function mikroOrmBy(
  name: string,
  load: () => Promise<Package>,
): UnitOfWorkUnderTest<EntityManager> {
  return {
    name,
    reportsLoss: false,
    canCut: false,
    open: async (url, max) => {
      const { EntitySchema, MikroORM } = await load();
      const Effect = new EntitySchema<{ id: string }>({
        name: 'Effect',
        tableName: 'effects',
        properties: { id: { type: 'text', primary: true } },
      });
      // Its logger tells of each lost connection.
      const silent = { logger: () => undefined, pool: { min: 0, max } };
      const orm = await MikroORM.init({ clientUrl: url, entities: [Effect], ...silent });
      return {
        unitOfWork: onPostgres(mikroOrmUnitOfWork(orm)),
        insert: (em, id) => em.insert(Effect, { id }),
        close: () => orm.close(true),
      };
    },
  };
}

export const mikroOrm = mikroOrmBy('mikroOrmUnitOfWork', () => import('@mikro-orm/postgresql'));
