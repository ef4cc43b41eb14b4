import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { projectRoot } from '../../support/project-root.js';
import { toJavaScript } from '../../support/to-javascript.js';

const WORKER = join(import.meta.dirname, 'worker');

/**
 * Compiles worker and library into `folder`, once for all the processes that are to be started: compiled
 * on the fly, each start would take twice as long.
 *
 * @returns the program to run.
 */
export async function compileWorker(folder: string): Promise<string> {
  const app = join(folder, 'worker');
  const library = join(folder, 'node_modules/nestjs-idempotency');
  await mkdir(app, { recursive: true });
  await mkdir(library, { recursive: true });
  await Promise.all([
    writeFile(join(app, 'package.json'), JSON.stringify({ type: 'module' })),
    symlink(join(projectRoot, 'package.json'), join(library, 'package.json')),
    symlink(join(projectRoot, 'lua'), join(library, 'lua')),
    symlink(join(projectRoot, 'sql'), join(library, 'sql')),
    linkPackages(join(folder, 'node_modules')),
    compileTree(WORKER, app),
    compileTree(join(projectRoot, 'lib'), join(library, 'dist')),
  ]);
  return join(app, 'main.js');
}

/** Every package of the project beside the compiled library, which resolves to itself alone. */
async function linkPackages(folder: string): Promise<void> {
  const packages = join(projectRoot, 'node_modules');
  const names = await readdir(packages);
  await Promise.all(names.map((name) => symlink(join(packages, name), join(folder, name))));
}

async function compileTree(from: string, to: string): Promise<void> {
  const names = await readdir(from, { recursive: true });
  const sources = names.filter((name) => name.endsWith('.ts'));
  const folders = new Set(sources.map((name) => dirname(join(to, name))));
  for (const folder of folders) await mkdir(folder, { recursive: true });
  await Promise.all(
    sources.map(async (name) => {
      const code = await toJavaScript(join(from, name));
      await writeFile(join(to, name.replace(/\.ts$/, '.js')), code);
    }),
  );
}
