import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { projectRoot } from '../../project-root.js';

const SCHEMA = join(projectRoot, 'test/support/postgres/prisma/schema.prisma');
/** Inside the project, where a client finds its packages. */
const FOLDER = join(projectRoot, 'test/.tmp-prisma');

/** What the tests use of a client generated from schema.prisma. */
export interface EffectsClient extends EffectsTransaction {
  $transaction<Result>(
    work: (transaction: EffectsTransaction) => Promise<Result>,
    options?: object,
  ): Promise<Result>;
  $disconnect(): Promise<void>;
}

export interface EffectsTransaction {
  readonly effect: {
    create(args: { data: { id: string } }): PromiseLike<{ id: string }>;
    findMany(): PromiseLike<{ id: string }[]>;
  };
  $queryRawUnsafe<Result>(text: string, ...values: unknown[]): PromiseLike<Result>;
}

export type EffectsClientClass = new (options: { adapter: object }) => EffectsClient;

export type PrismaProvider = 'postgresql' | 'mysql';

/**
 * Generates a client from schema.prisma once per version of Prisma, without a network.
 *
 * @returns the folder of client.ts.
 */
export async function generatePrismaClient(
  provider: PrismaProvider = 'postgresql',
): Promise<string> {
  const { resolve } = createRequire(import.meta.url);
  const { version } = JSON.parse(await readFile(resolve('prisma/package.json'), 'utf8')) as {
    version: string;
  };
  const schema = (await readFile(SCHEMA, 'utf8')).replace('"postgresql"', `"${provider}"`);
  const digest = createHash('sha256').update(schema);
  const folder = join(FOLDER, `${version}-${digest.digest('hex').slice(0, 16)}`);
  const client = join(folder, 'client');
  if (existsSync(client)) return client;

  await mkdir(FOLDER, { recursive: true });
  // Other processes may be generating it, too.
  const own = await mkdtemp(`${folder}-`);
  await writeFile(join(own, 'schema.prisma'), schema);
  const command = [resolve('prisma/build/index.js'), 'generate', '--schema', 'schema.prisma'];
  await promisify(execFile)(process.execPath, command, {
    cwd: own,
    // It would download the schema engine, which a client with a driver adapter does not need.
    env: { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' },
  });
  await rename(own, folder).catch(async (error: unknown) => {
    await rm(own, { recursive: true });
    if (!existsSync(client)) throw error;
  });
  return client;
}

export async function loadPrismaClient(provider?: PrismaProvider): Promise<EffectsClientClass> {
  const { href } = pathToFileURL(join(await generatePrismaClient(provider), 'client.ts'));
  const { PrismaClient } = (await import(href)) as { PrismaClient: EffectsClientClass };
  return PrismaClient;
}
