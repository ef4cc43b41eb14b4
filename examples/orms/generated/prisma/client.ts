import { loadPrismaClient } from '../../../../test/support/postgres/prisma/generate-client.js';
import type { Client } from '../../prisma-types.js';

/** Stands where `prisma generate` would write the client: it is generated when the tests run. */
export const PrismaClient = (await loadPrismaClient()) as unknown as new (options: {
  adapter: object;
}) => Client;
export type * as Prisma from '../../prisma-types.js';
