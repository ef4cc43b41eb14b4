import { spawnSync } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ensureInstalled } from './install.js';

const FOLDER = join(import.meta.dirname, 'nodes');

/** The one that users run, then the others that are maintained, then the oldest that the package runs on. */
export const NODES = ['24', '22', '26', '20'] as const;

/** The program of the npm package `node` of that version, which is installed first where it is not there. */
export async function nodeOf(major: string): Promise<string> {
  await ensureInstalled(FOLDER);
  return join(FOLDER, 'node_modules', `node${major}`, 'bin/node');
}

/** Runs a program of the benchmark, and all processes that it starts, on another Node than this one: then it exits. */
export async function runOn(major: string, program: string): Promise<void> {
  const node = await nodeOf(major);
  // A path with a link in it would start programs without end.
  if (realpathSync(process.execPath) === realpathSync(node)) return;
  const args = [...process.execArgv, fileURLToPath(program), ...process.argv.slice(2)];
  const { status } = spawnSync(node, args, { stdio: 'inherit' });
  process.exit(status ?? 1);
}
