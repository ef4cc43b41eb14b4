import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { runCommand } from './run-command.js';

/** The first that the package supports, and one whose require() loads ES modules by itself. Nightly runs take turns. */
export const NODE_VERSIONS = [20, 24] as const;

export type NodeVersion = (typeof NODE_VERSIONS)[number];

/** The folder of each version's program: of the one that runs this, and of those that npm installs. */
export async function installNodes(folder: string): Promise<ReadonlyMap<NodeVersion, string>> {
  const bins = new Map<NodeVersion, string>();
  for (const version of NODE_VERSIONS) {
    if (process.version.startsWith(`v${String(version)}.`)) {
      bins.set(version, dirname(process.execPath));
      continue;
    }
    const root = join(folder, `node-${String(version)}`);
    await mkdir(root);
    await writeFile(join(root, 'package.json'), '{ "private": true }');
    const args = ['install', '--loglevel', 'error', `node@${String(version)}`];
    await runCommand('npm', args, { cwd: root });
    bins.set(version, join(root, 'node_modules/node/bin'));
  }
  return bins;
}
