import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Where Debian and Ubuntu keep the versions side by side. */
const DEBIAN_FOLDER = '/usr/lib/postgresql';

/** The store's requirement. */
const OLDEST_VERSION = 13;

/** An installation of PostgreSQL on this machine. */
export interface FoundPostgres {
  /** The folder of its programs. */
  readonly binaries: string;
  readonly majorVersion: number;
}

/** The installation whose programs POSTGRES_BIN names, else the newest of Debian's, else one on PATH; 13 or later. */
export function findPostgres(): FoundPostgres | undefined {
  const named = process.env.POSTGRES_BIN;
  const folders = named === undefined ? [...debianFolders(), ...pathFolders()] : [named];
  for (const binaries of folders) {
    const { stdout } = spawnSync(join(binaries, 'postgres'), ['--version'], { encoding: 'utf8' });
    const majorVersion = Number(/\(PostgreSQL\) (\d+)/.exec(stdout)?.[1]);
    if (majorVersion >= OLDEST_VERSION && existsSync(join(binaries, 'initdb')))
      return { binaries, majorVersion };
  }
  return undefined;
}

function debianFolders(): string[] {
  if (!existsSync(DEBIAN_FOLDER)) return [];
  const newestFirst = readdirSync(DEBIAN_FOLDER).sort((a, b) => Number(b) - Number(a));
  return newestFirst.map((version) => join(DEBIAN_FOLDER, version, 'bin'));
}

function pathFolders(): string[] {
  return (process.env.PATH ?? '').split(delimiter);
}
