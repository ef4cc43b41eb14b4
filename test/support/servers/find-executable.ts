import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Where packages install servers: these folders are not on every PATH. */
const SERVER_FOLDERS = ['/usr/local/sbin', '/usr/sbin', '/opt/homebrew/sbin'];

/**
 * The first program of this name on PATH, or in the servers' folders.
 *
 * @param before - folders to search first.
 */
export function findExecutable(name: string, before: readonly string[] = []): string | undefined {
  const onPath = (process.env.PATH ?? '').split(delimiter);
  return [...before, ...onPath, ...SERVER_FOLDERS]
    .map((folder) => join(folder, name))
    .find(isExecutable);
}

/** The program of a server: the one that an environment variable names, else the first of its name. */
export function findServer(
  name: string,
  variable: string,
  before: readonly string[] = [],
): string | undefined {
  const program = process.env[variable] ?? findExecutable(name, before);
  return program !== undefined && isExecutable(program) ? program : undefined;
}

/** @throws Error that names the way to install the server. */
export function requireServer<Found = string>(
  name: string,
  variable: string,
  found = findServer(name, variable) as Found | undefined,
): Found {
  if (found !== undefined) return found;
  throw new Error(
    `${name} was not found on PATH: install it (Debian: apt-get install ${name}) or name it in ${variable}`,
  );
}

/** Whether this path is a program. */
export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
