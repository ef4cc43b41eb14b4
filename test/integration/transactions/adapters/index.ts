import type { UnitOfWorkUnderTest } from '../unit-of-work-suite.js';
import { drizzle } from './drizzle.js';
import { knex } from './knex.js';
import { kysely } from './kysely.js';
import { pg } from './pg.js';
import { prisma } from './prisma.js';
import { typeorm } from './typeorm.js';

/** Those that an application in a process of its own can open. */
export const adapters = { pg, typeorm, prisma, kysely, drizzle, knex };

export type AdapterName = keyof typeof adapters;

export const adapterNames = Object.keys(adapters) as AdapterName[];

/** The same, whatever its handle: its own functions alone are called with it. */
export function adapterOf(name: AdapterName): UnitOfWorkUnderTest<never> {
  return adapters[name] as unknown as UnitOfWorkUnderTest<never>;
}
