import type { UnitOfWorkUnderTest } from '../unit-of-work-suite.js';
import { drizzle } from './drizzle.js';
import { knex } from './knex.js';
import { kysely } from './kysely.js';
import { mikroOrm } from './mikro-orm.js';
import { pg } from './pg.js';
import { prisma } from './prisma.js';
import { sequelize } from './sequelize.js';
import { typeorm } from './typeorm.js';

/** The adapters that an application in a separate process can open. */
export const adapters = { pg, typeorm, prisma, kysely, drizzle, knex, mikroOrm, sequelize };

export type AdapterName = keyof typeof adapters;

export const adapterNames = Object.keys(adapters) as AdapterName[];

/** Erases the type of the handle: only functions of the same adapter receive it. */
export function adapterOf(name: AdapterName): UnitOfWorkUnderTest<never> {
  return adapters[name] as unknown as UnitOfWorkUnderTest<never>;
}
