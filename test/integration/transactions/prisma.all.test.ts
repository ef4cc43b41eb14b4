import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join, relative } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { PrismaPg } from '@prisma/adapter-pg';
import { IdempotencyOptionsError } from 'nestjs-idempotency';
import type { UnitOfWork } from 'nestjs-idempotency/transactions';
import { prismaUnitOfWork, TransactionAbortedError } from 'nestjs-idempotency/prisma';
import {
  type EffectsClient,
  type EffectsTransaction,
  generatePrismaClient,
} from '../../support/postgres/prisma/generate-client.js';
import { projectRoot } from '../../support/project-root.js';
import { openClient, prisma } from './adapters/prisma.js';
import { useDatabase } from './support/use-database.js';
import { describeUnitOfWork } from './unit-of-work-suite.js';

/** Compiled against a generated client, because no client exists when this project is compiled. */
const typedProgram = (client: string) => `
import { prismaUnitOfWork } from 'nestjs-idempotency/prisma';
import type { UnitOfWork } from 'nestjs-idempotency/transactions';
import { Prisma, type PrismaClient } from '${client}/client.js';

declare const client: PrismaClient;
const unitOfWork: UnitOfWork<Prisma.TransactionClient> = prismaUnitOfWork(client);
export const created: Promise<{ id: string }> = prismaUnitOfWork(client).run(
  { isolation: 'serializable', timeoutMs: 1 },
  ({ handle }) => handle.effect.create({ data: { id: 'one' } }),
);
export const handle = unitOfWork.run({ isolation: undefined, timeoutMs: 1 }, async (transaction) => {
  // @ts-expect-error There is no such model.
  transaction.handle.shipment;
  // @ts-expect-error It is not the client, but a transaction of it.
  transaction.handle.$disconnect;
});

const extended = client.$extends({ model: { effect: { twice: (id: string) => id + id } } });
export const twice: Promise<string> = prismaUnitOfWork(extended).run(
  { isolation: undefined, timeoutMs: 1 },
  async (transaction) => transaction.handle.effect.twice('id'),
);

class PrismaService extends (null as unknown as typeof import('${client}/client.js').PrismaClient) {}
export const ofService: UnitOfWork<Prisma.TransactionClient> = prismaUnitOfWork(new PrismaService({ accelerateUrl: '' }));
`;

describeUnitOfWork(prisma);

describe('prismaUnitOfWork', () => {
  const OPTIONS = { isolation: undefined, timeoutMs: 60_000 };

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a URL', 'postgres://127.0.0.1/shop'],
    ['the adapter of a client', new PrismaPg({ connectionString: 'postgres://127.0.0.1/shop' })],
    ['a class', Map],
    ['a transaction without transactions', { $transaction: undefined, $queryRawUnsafe: Math.abs }],
    ['a client that runs no statements', { $transaction: Math.abs, $queryRawUnsafe: undefined }],
  ])('rejects %s', (_, client) => {
    const create = () => prismaUnitOfWork(client as unknown as EffectsClient);
    expect(create).toThrow(IdempotencyOptionsError);
    expect(create).toThrow('an instance of a generated PrismaClient');
  });

  it('types the handle as the transaction client of the schema', async () => {
    const client = await generatePrismaClient();
    const folder = await mkdtemp(join(projectRoot, 'test/.tmp-types-'));
    try {
      await writeFile(join(folder, 'program.ts'), typedProgram(relative(folder, client)));
      const config = { extends: '../tsconfig.json', include: ['program.ts'] };
      await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config));
      expect(await compile(folder)).toBe('');
    } finally {
      await rm(folder, { recursive: true });
    }
  }, 120_000);

  describe('on a real server', () => {
    const database = useDatabase();
    let client: EffectsClient;
    let unitOfWork: UnitOfWork<EffectsTransaction>;

    beforeEach(async () => {
      client = await openClient(database.url, 1);
      unitOfWork = prismaUnitOfWork(client);
    });
    afterEach(() => client.$disconnect());

    it('throws the reason why it did not commit', async () => {
      const run = unitOfWork.run(OPTIONS, async ({ handle }) => {
        await handle.$queryRawUnsafe('SELECT 1/0').then(undefined, () => undefined);
      });
      await expect(run).rejects.toThrow(TransactionAbortedError);
    });

    it('makes Prisma roll back at the timeout', async () => {
      const failures: unknown[] = [];
      const run = unitOfWork.run({ ...OPTIONS, timeoutMs: 1_000 }, async ({ handle }) => {
        await handle.effect.create({ data: { id: 'one' } });
        // The only connection: this resolves once the transaction has released it.
        expect(await client.effect.findMany()).toEqual([]);
        await handle.effect.create({ data: { id: 'two' } }).then(undefined, (error: unknown) => {
          failures.push(error);
          throw error;
        });
      });
      const thrown = await run.catch((error: unknown) => error);
      expect(failures).toEqual([thrown]);
      expect(thrown).toMatchObject({ code: 'P2028', message: expect.stringContaining('1000 ms') });
      expect(await client.effect.findMany()).toEqual([]);
    });

    it('waits for a connection as long as the timeout, and releases one that comes too late', async () => {
      let calls = 0;
      await unitOfWork.run(OPTIONS, async () => {
        const late = unitOfWork.run({ ...OPTIONS, timeoutMs: 100 }, async () => void (calls += 1));
        // Prisma's default is two seconds.
        const ends = [late.catch(() => 'timed out'), delay(1_500, 'still waiting')];
        expect(await Promise.race(ends)).toBe('timed out');
      });
      await unitOfWork.run(OPTIONS, ({ handle }) =>
        Promise.resolve(handle.effect.create({ data: { id: 'next' } })),
      );
      expect(calls).toBe(0);
      expect(await client.effect.findMany()).toEqual([{ id: 'next' }]);
    });
  });
});

/** @returns the output of the compiler. */
async function compile(project: string): Promise<string> {
  const compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc');
  const compiling = promisify(execFile)(process.execPath, [compiler, '-p', project]);
  const { stdout } = await compiling.catch((error: unknown) => error as { stdout: string });
  return stdout;
}
