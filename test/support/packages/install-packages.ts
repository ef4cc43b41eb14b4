import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { outsideEnvironment } from '../processes/processes.js';

export interface Installation {
  /** How Node reads the `.js` files of the project. */
  readonly type: 'commonjs' | 'module';
  readonly dependencies: Readonly<Record<string, string>>;
}

/** Makes `root` a separate project, and installs its dependencies from scratch. */
export async function installPackages(
  root: string,
  { type, dependencies }: Installation,
): Promise<void> {
  const manifest = { name: 'consumer', private: true, type, dependencies };
  await writeFile(join(root, 'package.json'), JSON.stringify(manifest));
  const flags = ['--prefer-offline', '--no-audit', '--no-fund', '--no-package-lock'];
  await promisify(execFile)(
    'npm',
    ['install', ...flags, '--ignore-scripts', '--loglevel', 'error'],
    { cwd: root, env: outsideEnvironment() },
  );
}
