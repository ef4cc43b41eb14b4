import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { endWithThisProcess } from './end-with-this-process.js';
import { freePort } from './free-port.js';
import { InstalledPostgres } from './installed-postgres.js';

/** A server that follows another one, and can be stopped and started again. */
export interface PostgresStandby {
  /** The same database, as the standby has it. */
  readonly url: string;
  start(): Promise<void>;
  stop(): Promise<void>;
  /** Stops it for good. */
  remove(): Promise<void>;
}

/**
 * Copies a server.
 *
 * @param primary - a database of it, for who may replicate.
 * @param binaries - the programs of the installation that the primary is of.
 */
export async function copyPostgres(primary: string, binaries: string): Promise<PostgresStandby> {
  const dir = mkdtempSync(join(tmpdir(), 'idempotency-standby-'));
  const url = new URL(primary);
  const settings = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', 'fsync=off'];
  const port = await freePort();
  const server = new InstalledPostgres(binaries, {
    databaseDir: join(dir, 'data'),
    port,
    user: url.username,
    password: url.password,
    authMethod: 'scram-sha-256',
    initdbFlags: [],
    postgresFlags: settings.flatMap((setting) => ['-c', setting]),
    onLog: () => undefined,
  });
  await server.copy(primary);
  url.port = String(port);
  let watchdog: ChildProcess | undefined;
  const stop = async () => {
    await server.stop();
    watchdog?.kill('SIGKILL');
  };
  return {
    url: url.href,
    start: async () => {
      await server.start();
      const pid = Number.parseInt(readFileSync(join(dir, 'data', 'postmaster.pid'), 'utf8'), 10);
      watchdog = endWithThisProcess(pid, dir, 'kill -QUIT "$1"');
    },
    stop,
    remove: async () => {
      await stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
