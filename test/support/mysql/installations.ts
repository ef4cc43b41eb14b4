import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { unpackServer, type UnpackedServer } from '../provision/unpacked-server.js';

/** A server's programs and files. */
export interface MysqlInstallation {
  readonly kind: 'mysql' | 'mariadb';
  /** With its version, such as `MariaDB 10.11.18`. */
  readonly name: string;
  readonly program: string;
  readonly base: string;
  /** The folder of its messages. */
  readonly messages: string;
  /** The SQL that makes MariaDB's own tables. */
  readonly systemTables: readonly string[];
}

const MARIADBD = ['/usr/sbin/mariadbd', '/usr/local/sbin/mariadbd'];
const SYSTEM_TABLES = [
  'system_tables.sql',
  'performance_tables.sql',
  'system_tables_data.sql',
  'sys_schema.sql',
];

/** The machine's own MariaDB; `MARIADB_BIN` names another one. */
export function findMariaDb(): MysqlInstallation | undefined {
  const program = process.env.MARIADB_BIN ?? MARIADBD.find((path) => existsSync(path));
  return program === undefined ? undefined : mariaDbAt(program, join(program, '../..'));
}

function mariaDbAt(program: string, base: string): MysqlInstallation | undefined {
  const { stdout } = spawnSync(program, ['--version'], { encoding: 'utf8' });
  const version = /Ver (\d+\.\d+\.\d+)-MariaDB/.exec(stdout)?.[1];
  if (version === undefined) return undefined;
  // Before version 11 the files had MySQL's names.
  const places = [
    { messages: join(base, 'share/mariadb'), prefix: 'mariadb_' },
    { messages: join(base, 'share/mysql'), prefix: 'mysql_' },
  ];
  const found = places.find(({ messages, prefix }) =>
    existsSync(join(messages, `${prefix}${SYSTEM_TABLES[0]}`)),
  );
  if (found === undefined) return undefined;
  const { messages, prefix } = found;
  const systemTables = SYSTEM_TABLES.map((file) => join(messages, `${prefix}${file}`));
  return { kind: 'mariadb', name: `MariaDB ${version}`, program, base, messages, systemTables };
}

/** Debian's newest MariaDB and MySQL, without those that its archive does not let us have: they are named. */
export async function unpackNewest(...kinds: readonly MysqlInstallation['kind'][]): Promise<{
  readonly installations: readonly MysqlInstallation[];
  remove(): void;
}> {
  const servers: UnpackedServer[] = [];
  const installations: MysqlInstallation[] = [];
  for (const kind of kinds) {
    const server = await unpackServer('sid', `${kind}-server-core`);
    if (server === undefined) continue;
    servers.push(server);
    installations.push(kind === 'mysql' ? mysqlOf(server) : newestMariaDbOf(server));
  }
  const remove = () => {
    for (const server of servers) server.remove();
  };
  return { installations, remove };
}

function newestMariaDbOf(server: UnpackedServer): MysqlInstallation {
  const found = mariaDbAt(server.program('usr/sbin/mariadbd'), join(server.root, 'usr'));
  if (found === undefined) throw new Error(`MariaDB ${server.version} does not start.`);
  return found;
}

function mysqlOf(server: UnpackedServer): MysqlInstallation {
  const base = join(server.root, 'usr');
  return {
    kind: 'mysql',
    name: `MySQL ${server.version.replace(/-.*$/, '')}`,
    program: server.program('usr/sbin/mysqld'),
    base,
    messages: join(base, 'share/mysql'),
    systemTables: [],
  };
}
