import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/**
 * Returns the first program of this name on the PATH.
 *
 * @param before - folders to search before the PATH.
 */
export function findProgram(name: string, before: readonly string[] = []): string | undefined {
  const folders = [...before, ...(process.env.PATH ?? '').split(delimiter)];
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
