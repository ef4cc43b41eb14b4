import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { randomUUID } from 'node:crypto';
import { createConnection } from 'mysql2/promise';
import { startServer, type Place, type StartedServer } from '../servers/start-server.js';
import type { MysqlInstallation } from './installations.js';
import { newDatabase } from './new-database.js';

export interface MysqlServer extends StartedServer {
  /** Of a user with all rights, and no database. */
  readonly url: string;
  /** Creates an empty database and returns its URL. */
  newDatabase(): Promise<string>;
}

export interface StartMysqlOptions extends Place {
  /** Additional settings of the server, which override its own: `{ 'max-allowed-packet': '1M' }`. */
  readonly settings?: Readonly<Record<string, string>>;
}

const READY = /ready for connections/;
const USER = 'tests';

/** It does not survive a power failure: nothing is flushed to disk, unless `settings` say so. */
const SETTINGS = {
  'bind-address': '127.0.0.1',
  'innodb-flush-log-at-trx-commit': '0',
  'innodb-buffer-pool-size': '64M',
  'performance-schema': 'OFF',
  'skip-log-bin': '',
  'skip-name-resolve': '',
  'max-connections': '300',
};

/** Of MySQL alone. */
const MYSQL_SETTINGS = { mysqlx: 'OFF', 'secure-file-priv': 'NULL' };

/** Starts a separate MySQL or MariaDB on 127.0.0.1, and waits until it accepts connections. */
export async function startMysql(
  installation: MysqlInstallation,
  { settings, ...place }: StartMysqlOptions = {},
): Promise<MysqlServer> {
  const { program, kind } = installation;
  const server = await startServer(kind, place, async (port, dir) => {
    if (!existsSync(dataOf(dir))) await initialise(installation, dir);
    const own = { ...SETTINGS, ...(kind === 'mysql' && MYSQL_SETTINGS), ...settings };
    return {
      program,
      args: [
        ...argumentsOf(installation, dir),
        `--port=${port}`,
        `--socket=${join(dir, 'socket')}`,
        `--pid-file=${join(dir, 'pid')}`,
        `--init-file=${join(dir, 'users.sql')}`,
        ...Object.entries(own).map(([name, value]) =>
          value === '' ? `--${name}` : `--${name}=${value}`,
        ),
      ],
      readyLog: READY,
      isReady: () => accepts(urlOf(dir, port)),
    };
  });
  const url = urlOf(server.dir, server.port);
  return { ...server, url, newDatabase: () => newDatabase(url) };
}

const dataOf = (dir: string) => join(dir, 'data');

const passwordFile = (dir: string) => join(dir, 'password');

function urlOf(dir: string, port: number): string {
  return `mysql://${USER}:${readFileSync(passwordFile(dir), 'utf8')}@127.0.0.1:${port}`;
}

function argumentsOf({ base, messages }: MysqlInstallation, dir: string): string[] {
  const paths = [`--basedir=${base}`, `--lc-messages-dir=${messages}`];
  return ['--no-defaults', `--datadir=${dataOf(dir)}`, ...paths, '--user=root'];
}

async function initialise(installation: MysqlInstallation, dir: string): Promise<void> {
  const password = randomUUID();
  writeFileSync(passwordFile(dir), password, { mode: 0o600 });
  const user = `'${USER}'@'%'`;
  const users = `CREATE USER IF NOT EXISTS ${user} IDENTIFIED BY '${password}';\nGRANT ALL ON *.* TO ${user} WITH GRANT OPTION;\n`;
  writeFileSync(join(dir, 'users.sql'), users, { mode: 0o600 });
  const own = argumentsOf(installation, dir);
  if (installation.kind === 'mysql') {
    await runToEnd(installation.program, [...own, '--initialize-insecure'], '');
    return;
  }
  mkdirSync(join(dataOf(dir), 'mysql'), { recursive: true });
  const tables = installation.systemTables.map((file) => readFileSync(file, 'utf8'));
  const quick = ['--innodb-flush-log-at-trx-commit=0', '--skip-log-bin'];
  await runToEnd(
    installation.program,
    [...own, ...quick, '--bootstrap'],
    `use mysql;\n${tables.join('\n')}`,
  );
}

async function runToEnd(program: string, args: readonly string[], input: string): Promise<void> {
  const child = spawn(program, args, { stdio: ['pipe', 'ignore', 'pipe'] });
  const log: string[] = [];
  child.stderr.on('data', (chunk: Buffer) => void log.push(chunk.toString()));
  child.stdin.end(input);
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`${program} ended with ${String(code)}: ${log.join('')}`);
}

async function accepts(url: string): Promise<boolean> {
  try {
    const connection = await createConnection(url);
    connection.destroy();
    return true;
  } catch {
    return false;
  }
}
