import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { projectRoot } from './project-root.js';

const run = promisify(execFile);

/** What `npm publish` would upload. */
export interface PackedPackage {
  readonly tarball: string;
  /** Paths within the package, sorted. */
  readonly files: readonly string[];
}

/** Packs the built package into `folder`. Without building: the tests that run beside use dist. */
export async function packPackage(folder: string): Promise<PackedPackage> {
  if (!existsSync(join(projectRoot, 'dist/cjs/index.js'))) {
    throw new Error('The package is not built: npm run build, or all in one: npm test');
  }
  const args = ['pack', '--ignore-scripts', '--json', '--pack-destination', folder];
  const { stdout } = await run('npm', args, { cwd: projectRoot, env: outsideEnvironment() });
  const [packed] = JSON.parse(stdout) as { filename: string; files: { path: string }[] }[];
  if (packed === undefined) throw new Error(`npm pack reported nothing: ${stdout}`);
  return {
    tarball: join(folder, packed.filename),
    files: packed.files.map(({ path }) => path).sort(),
  };
}

/** The environment without what npm and Jest added to it for this test run. */
export function outsideEnvironment(): NodeJS.ProcessEnv {
  const { NODE_OPTIONS, npm_config_local_prefix, ...rest } = process.env;
  return rest;
}
