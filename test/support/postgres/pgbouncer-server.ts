import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findServer, requireServer } from '../servers/find-executable.js';
import { startServer, type StartedServer } from '../servers/start-server.js';
import { serverUser } from './postgres-server.js';

const PROGRAM = ['pgbouncer', 'PGBOUNCER_BIN'] as const;

/** The PgBouncer that PGBOUNCER_BIN names, else the machine's. */
export const findPgBouncer = () => findServer(...PROGRAM);

export interface PgBouncer extends StartedServer {
  /** Of the database, through the pooler. */
  readonly url: string;
}

/**
 * Starts a separate PgBouncer in transaction mode on 127.0.0.1, whose clients need no password.
 *
 * @param database - the URL of the database behind it.
 * @param settings - further ones, which override those of PgBouncer.
 */
export async function startPgBouncer(
  database: string,
  settings: Readonly<Record<string, string | number>> = {},
  program = requireServer(...PROGRAM),
): Promise<PgBouncer> {
  const server = await startServer('pgbouncer', {}, (port, dir) => {
    const file = join(dir, 'pgbouncer.ini');
    writeFileSync(file, configuration(database, { listen_port: port, ...settings }));
    chmodSync(dir, 0o755);
    return {
      program,
      args: [file],
      // It does not run as root.
      user: serverUser(),
      readyLog: /process up: /,
      // SIGTERM waits for clients since 1.23, and SIGINT waited before.
      stopSignal: 'SIGQUIT',
    };
  });
  return { ...server, url: `postgres://app@127.0.0.1:${String(server.port)}/app` };
}

function configuration(
  database: string,
  settings: Readonly<Record<string, string | number>>,
): string {
  const { hostname, port, username, password, pathname } = new URL(database);
  const behind = {
    ...{ host: hostname, port, dbname: decodeURIComponent(pathname.slice(1)) },
    ...{ user: username, password: decodeURIComponent(password) },
  };
  const all = {
    listen_addr: '127.0.0.1',
    unix_socket_dir: '',
    auth_type: 'any',
    pool_mode: 'transaction',
    default_pool_size: 10,
    ...settings,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}`);
  const address = Object.entries(behind).map(([name, value]) => `${name}=${value}`);
  return ['[databases]', `app = ${address.join(' ')}`, '[pgbouncer]', ...lines, ''].join('\n');
}
