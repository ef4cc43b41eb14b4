import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Where packages put servers: these are not on everybody's PATH. */
const SERVER_FOLDERS = ['/usr/local/sbin', '/usr/sbin', '/opt/homebrew/sbin'];

/**
 * The first program of this name on PATH, or where servers are.
 *
 * @param before - folders to look into before that.
 */
export function findExecutable(name: string, before: readonly string[] = []): string | undefined {
  const onPath = (process.env.PATH ?? '').split(delimiter);
  return [...before, ...onPath, ...SERVER_FOLDERS]
    .map((folder) => join(folder, name))
    .find(isExecutable);
}

/** Whether there is a program of this path. */
export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
