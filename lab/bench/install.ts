import { execFile } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The folder of the packages that this one is compared with. */
export const PEERS = import.meta.dirname;

/** Installs what the lockfile of a folder names, unless it is there. */
export async function ensureInstalled(folder: string): Promise<void> {
  const wanted = join(folder, 'package-lock.json');
  const present = join(folder, 'node_modules/.package-lock.json');
  if (existsSync(present) && statSync(present).mtimeMs >= statSync(wanted).mtimeMs) return;
  await run('npm', ['ci'], { cwd: folder });
}
