import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rename, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { withLock } from '../processes/with-lock.js';
import { projectRoot } from '../project-root.js';
import { compileTree } from '../typescript/to-javascript.js';
import { CACHE, builtPackage } from './built-package.js';
import { SOURCES, digestOf } from './digest.js';

const SAMPLE = join(projectRoot, 'sample-app');
const BUILT = ['src', 'demo', 'public'].map((name) => `sample-app/${name}`);

/**
 * The folder of the sample app as JavaScript, beside the built package, as `npm start` runs it. Each build has a folder,
 * named by the digest of its sources, and is never changed: a demonstration that runs can start further processes of the
 * build that it began with.
 *
 * @param onBuild - called before it builds what is not built.
 */
export async function builtSample(onBuild?: () => void): Promise<string> {
  const digest = digestOf([...SOURCES, ...BUILT]);
  const target = join(CACHE, `sample-${digest.slice(0, 16)}`);
  if (!existsSync(target)) {
    onBuild?.();
    const from = await builtPackage();
    await mkdir(CACHE, { recursive: true });
    await withLock(`${target}.lock`, async () => {
      if (!existsSync(target)) await build(from, target);
    });
  }
  const now = new Date();
  // Old builds are removed by their age.
  await utimes(target, now, now);
  return join(target, 'sample-app/dist');
}

async function build(from: string, target: string): Promise<void> {
  const folder = await mkdtemp(`${target}-`);
  const built = join(folder, 'sample-app/dist');
  await Promise.all([
    copyPackage(from, folder),
    copyPackage(
      join(from, 'packages/client'),
      join(folder, 'node_modules/nestjs-idempotency-client'),
    ),
    compileTree(join(SAMPLE, 'src'), join(built, 'src')),
    compileTree(join(SAMPLE, 'demo'), join(built, 'demo')),
    cp(join(SAMPLE, 'public'), join(built, 'public'), { recursive: true }),
  ]);
  await rename(folder, target);
}

async function copyPackage(from: string, to: string): Promise<void> {
  await cp(join(from, 'package.json'), join(to, 'package.json'));
  await cp(join(from, 'dist'), join(to, 'dist'), { recursive: true });
}
