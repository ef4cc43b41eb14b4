import { execFile } from 'node:child_process';
import { mkdir, readFile, readdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { installPackages } from '../../support/packages/install-packages.js';
import type { NestPackages } from '../../support/packages/versions.js';
import { packPackage } from '../../support/packages/packed-package.js';
import { projectRoot } from '../../support/project-root.js';
import { toJavaScript } from '../../support/typescript/to-javascript.js';

const tests = join(projectRoot, 'test');

const APP = 'contract/app';

/** The one module that the application shares with the other tests, types aside. */
const SHARED = 'support/stores/faulty-store.ts';

/** What the application needs besides Nest and the library. */
const OTHERS = [
  '@fastify/multipart',
  'class-transformer',
  'class-validator',
  'ioredis',
  'mysql2',
  'pg',
  'reflect-metadata',
  'rxjs',
];

/**
 * Builds the application of this suite in `folder`, over the tarball of the library as a user gets it. All
 * other packages are the project's own, and nothing is installed, except for another version of Nest.
 *
 * @returns the program to run.
 */
export async function buildApp(folder: string, nest?: NestPackages): Promise<string> {
  const app = join(folder, 'app');
  await mkdir(app, { recursive: true });
  await Promise.all([
    nest === undefined ? linkPackages(folder, app) : installOn(nest, folder, app),
    compile(app),
  ]);
  return join(app, APP, 'main.js');
}

async function linkPackages(folder: string, app: string): Promise<void> {
  const library = join(app, 'node_modules/nestjs-idempotency');
  await mkdir(library, { recursive: true });
  await Promise.all([
    unpackLibrary(folder, library),
    // Node searches the folders above, too: the library is found first, everything else here.
    symlink(join(projectRoot, 'node_modules'), join(folder, 'node_modules')),
    writeFile(join(app, 'package.json'), JSON.stringify({ type: 'module' })),
  ]);
}

/**
 * Without a link to the project's packages: Nest looks for others of its own, and would find the project's
 * version.
 */
async function installOn(nest: NestPackages, folder: string, app: string): Promise<void> {
  const { tarball } = await packPackage(folder);
  const manifest = await readFile(join(projectRoot, 'package.json'), 'utf8');
  const { devDependencies } = JSON.parse(manifest) as { devDependencies: Record<string, string> };
  const ofProject = (name: string) => [name, devDependencies[name] ?? ''];
  await installPackages(app, {
    type: 'module',
    dependencies: {
      ...nest,
      ...Object.fromEntries(OTHERS.map(ofProject)),
      'nestjs-idempotency': `file:${tarball}`,
    },
  });
}

async function unpackLibrary(folder: string, library: string): Promise<void> {
  const { tarball } = await packPackage(folder);
  const strip = ['--strip-components', '1'];
  await promisify(execFile)('tar', ['-xzf', tarball, '-C', library, ...strip]);
}

async function compile(app: string): Promise<void> {
  for (const name of await sources()) {
    const code = await toJavaScript(join(tests, name));
    const compiled = join(app, name.replace(/\.ts$/, '.js'));
    await mkdir(dirname(compiled), { recursive: true });
    await writeFile(compiled, code);
  }
}

/** Paths below `test/`. */
async function sources(): Promise<string[]> {
  const names = await readdir(join(tests, APP), { recursive: true });
  return [...names.filter((name) => name.endsWith('.ts')).map((name) => join(APP, name)), SHARED];
}
