import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { installPackages } from '../../support/packages/install-packages.js';
import { projectRoot } from '../../support/project-root.js';
import { kyselyBy } from './adapters/kysely.js';
import { mikroOrmBy } from './adapters/mikro-orm.js';
import * as onMysql from './mysql/adapters.js';
import { describeOnMysql } from './mysql/mysql-suite.js';
import { describeUnitOfWork } from './unit-of-work-suite.js';

/** They need a newer Node than the packages of the lockfile. */
const VERSIONS = {
  '@mikro-orm/core': '7.2.5',
  '@mikro-orm/postgresql': '7.2.5',
  kysely: '0.29.9',
};
/** Its newest release is older, and wants a core of its own. */
const ON_MYSQL = { '@mikro-orm/core': '7.2.1', '@mikro-orm/mysql': '7.2.1' };
const INSTALL_MS = 300_000;

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
const given = major > 22 || (major === 22 && minor >= 17) ? describe : describe.skip;

given('On the newest releases', () => {
  let root: string;
  let mysqlRoot: string;

  beforeAll(async () => {
    root = await mkdtemp(join(projectRoot, 'test/.tmp-newest-'));
    mysqlRoot = await mkdtemp(join(projectRoot, 'test/.tmp-newest-'));
    await installPackages(root, { type: 'module', dependencies: VERSIONS });
    await installPackages(mysqlRoot, { type: 'module', dependencies: ON_MYSQL });
  }, INSTALL_MS);
  afterAll(async () => {
    for (const folder of [root, mysqlRoot]) await rm(folder, { recursive: true, force: true });
  });

  const load = async <Package>(folder: string, file: string) =>
    (await import(pathToFileURL(join(folder, 'node_modules', file)).href)) as Package;

  it('are those that the tests name', async () => {
    const { MikroORM } = await load<typeof import('@mikro-orm/core')>(
      root,
      '@mikro-orm/core/index.js',
    );
    expect(typeof MikroORM.init).toBe('function');
  });

  describeUnitOfWork(
    mikroOrmBy('mikroOrmUnitOfWork of MikroORM 7', () =>
      load(root, '@mikro-orm/postgresql/index.js'),
    ),
  );
  describeUnitOfWork(
    kyselyBy('kyselyUnitOfWork of Kysely 0.29', () => load(root, 'kysely/dist/index.js')),
  );
  describeOnMysql(
    'MikroORM 7',
    onMysql.mikroOrmBy(() => load(mysqlRoot, '@mikro-orm/mysql/index.js')),
  );
  describeOnMysql(
    'Kysely 0.29',
    onMysql.kyselyBy(() => load(root, 'kysely/dist/index.js')),
  );
});
