import { execFile } from 'node:child_process';
import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { transformFile, type Options } from '@swc/core';
import { packPackage } from '../../support/packed-package.js';
import { projectRoot } from '../../support/project-root.js';

const sources = join(projectRoot, 'test/contract/app');

const toJavaScript: Options = {
  swcrc: false,
  jsc: {
    target: 'es2022',
    parser: { syntax: 'typescript', decorators: true },
    transform: { legacyDecorator: true, decoratorMetadata: true },
  },
  module: { type: 'es6' },
};

/**
 * Builds the application of this suite in `folder`, over the tarball of the library as a user gets it. All
 * other packages are the project's own: nothing is installed.
 *
 * @returns the program to run.
 */
export async function buildApp(folder: string): Promise<string> {
  const app = join(folder, 'app');
  const library = join(app, 'node_modules/nestjs-idempotency');
  await mkdir(library, { recursive: true });
  await Promise.all([
    unpackLibrary(folder, library),
    // Node looks into the folders above, too: the library is found first, everything else here.
    symlink(join(projectRoot, 'node_modules'), join(folder, 'node_modules')),
    writeFile(join(app, 'package.json'), JSON.stringify({ type: 'module' })),
    compile(app),
  ]);
  return join(app, 'main.js');
}

async function unpackLibrary(folder: string, library: string): Promise<void> {
  const { tarball } = await packPackage(folder);
  const strip = ['--strip-components', '1'];
  await promisify(execFile)('tar', ['-xzf', tarball, '-C', library, ...strip]);
}

async function compile(app: string): Promise<void> {
  const names = await readdir(sources, { recursive: true });
  for (const name of names.filter((each) => each.endsWith('.ts'))) {
    const { code } = await transformFile(join(sources, name), toJavaScript);
    const compiled = join(app, name.replace(/\.ts$/, '.js'));
    await mkdir(dirname(compiled), { recursive: true });
    await writeFile(compiled, code);
  }
}
