import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { outsideEnvironment } from '../processes/processes.js';
import { projectRoot } from '../project-root.js';
import { compileTree } from '../typescript/to-javascript.js';
import { withLock } from '../processes/with-lock.js';
import { DIGEST_FILE, SHIPPED, digestOfSources } from './digest.js';

/** Folders that are named by the digest of what they were built from. */
export const CACHE = join(projectRoot, 'node_modules/.cache/nestjs-idempotency');
const KEPT_MS = 86_400_000;

/** Where the packages stand: in the checkout, and in what is built of it. */
const PACKAGES = ['', 'packages/client'];

const run = promisify(execFile);

/**
 * The folder of the package as it is published, with the client's package in `packages/client`: the project's own if `npm run build` has built these sources,
 * otherwise one that swc and Rollup fill, without declarations, shared by all files and runs with the same
 * sources.
 *
 * @param needs - `npm run build` alone makes declarations: it is run if it has not been.
 */
export async function builtPackage(needs: { declarations?: boolean } = {}): Promise<string> {
  const digest = digestOfSources();
  if (isBuilt(digest)) return projectRoot;
  await mkdir(CACHE, { recursive: true });
  const target = join(CACHE, digest.slice(0, 16));
  await withLock(`${target}.lock`, async () => {
    if (needs.declarations === true) {
      if (!isBuilt(digest))
        await run('npm', ['run', 'build'], { cwd: projectRoot, env: outsideEnvironment() });
    } else if (!existsSync(target)) {
      await removeOld();
      await make(target);
    }
  });
  return needs.declarations === true ? projectRoot : target;
}

function isBuilt(digest: string): boolean {
  const isThere = existsSync(DIGEST_FILE) && existsSync(join(projectRoot, 'dist/cjs/index.js'));
  return isThere && readFileSync(DIGEST_FILE, 'utf8') === digest;
}

async function make(target: string): Promise<void> {
  const folder = await mkdtemp(`${target}-`);
  await Promise.all([
    ...SHIPPED.map((name) => cp(join(projectRoot, name), join(folder, name), { recursive: true })),
    ...PACKAGES.map((name) =>
      compileTree(join(projectRoot, name, 'lib'), join(folder, name, 'build')),
    ),
  ]);
  const rollup = join(projectRoot, 'node_modules/rollup/dist/bin/rollup');
  const config = join(projectRoot, 'rollup.config.js');
  for (const name of PACKAGES) {
    await run(process.execPath, [rollup, '--config', config, '--silent'], {
      cwd: join(folder, name),
      env: outsideEnvironment(),
    });
  }
  await rename(folder, target);
}

/** Built from sources that have changed since. A run in progress may still use younger ones. */
async function removeOld(): Promise<void> {
  for (const name of await readdir(CACHE)) {
    const { mtimeMs } = await stat(join(CACHE, name));
    if (Date.now() - mtimeMs > KEPT_MS) await rm(join(CACHE, name), { recursive: true });
  }
}
