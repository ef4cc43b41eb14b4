import { cp, mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { projectRoot } from '../../test/support/project-root.js';
import { compileTree } from '../../test/support/typescript/to-javascript.js';

const FAULTS = import.meta.dirname;

/** What workers of all kinds share. */
const COMMON = 'worker';

/** Where the compiled library is, within the folder that it was compiled into. */
export const COMPILED_LIBRARY = 'node_modules/nestjs-idempotency';

/** Where its files are, named as below `lib`: package.json names its entries there. */
export const COMPILED_FILES = 'dist/esm';

/**
 * Compiles worker and library into `folder`, once for all the processes that are to be started: compiled
 * on the fly, each start would take twice as long.
 *
 * @param worker - the folder of its `main.ts`, in `lab/faults`.
 * @returns the program to run, within `folder`.
 */
export async function compileWorker(folder: string, worker = COMMON): Promise<string> {
  const app = join(folder, 'app');
  const library = join(folder, COMPILED_LIBRARY);
  await mkdir(app, { recursive: true });
  await mkdir(library, { recursive: true });
  await Promise.all([
    writeFile(join(app, 'package.json'), JSON.stringify({ type: 'module' })),
    // A copy, as the rest: work on the library meanwhile does not change what is running.
    cp(join(projectRoot, 'package.json'), join(library, 'package.json')),
    linkPackages(join(folder, 'node_modules')),
    ...[...new Set([COMMON, worker])].map((name) =>
      compileTree(join(FAULTS, name), join(app, name)),
    ),
    compileTree(join(projectRoot, 'lib'), join(library, COMPILED_FILES)),
  ]);
  return join(app, worker, 'main.js');
}

/** Every package of the project beside the compiled library, which resolves to itself alone. */
async function linkPackages(folder: string): Promise<void> {
  const packages = join(projectRoot, 'node_modules');
  const names = await readdir(packages);
  await Promise.all(names.map((name) => symlink(join(packages, name), join(folder, name))));
}
