import { spawnSync } from 'node:child_process';
import { findChromium } from '../browser/chromium.js';
import { findMariaDb } from '../mysql/installations.js';
import { findPostgres } from '../postgres/installed-postgres.js';
import { findPgBouncer } from '../postgres/pgbouncer-server.js';
import { findMosquitto } from '../servers/mosquitto-server.js';
import { findNats } from '../servers/nats-server.js';
import { findNginx } from '../servers/nginx-server.js';
import { findPromtool } from '../prometheus/find-promtool.js';
import { findRabbitMq } from '../rabbitmq/installation.js';
import { findCompiler } from '../clocks/compiler.js';
import type { Program } from './provide.js';
import { findSpin } from './spin.js';

const OLDEST_REDIS = [6, 2] as const;

export type ProgramName =
  | 'redis'
  | 'postgres'
  | 'mariadb'
  | 'c-compiler'
  | 'chromium'
  | 'rabbitmq'
  | 'nats'
  | 'mosquitto'
  | 'pgbouncer'
  | 'nginx'
  | 'promtool'
  | 'spin'
  | 'valgrind'
  | 'wrk';

/**
 * What tests need besides npm's packages. Services that Debian's packages may start on the usual ports are
 * not used: the tests start their own servers on free ports.
 */
export const programs: Readonly<Record<ProgramName, Program>> = {
  redis: {
    name: 'redis-server 6.2 or later',
    debianPackages: ['redis-server'],
    variable: 'REDIS_SERVER_BIN',
    find: findRedis,
    tests: 'The tests on Redis',
    isIndispensable: true,
    elsewhere: '"brew install redis" (macOS)',
  },
  postgres: {
    name: 'PostgreSQL 13 or later',
    debianPackages: ['postgresql'],
    variable: 'POSTGRES_BIN',
    find: () => {
      const found = findPostgres();
      return found && `PostgreSQL ${found.majorVersion} (${found.binaries})`;
    },
    // npm installs the first one.
    tests: 'The tests on a second PostgreSQL',
    elsewhere: '"brew install postgresql@15" (macOS)',
    named: 'the folder of its programs',
  },
  mariadb: {
    name: 'MariaDB 10.11 or later',
    debianPackages: ['mariadb-server-core'],
    variable: 'MARIADB_BIN',
    find: () => findMariaDb()?.name,
    tests: 'The tests on MariaDB',
    elsewhere: '"brew install mariadb" (macOS)',
  },
  'c-compiler': {
    name: 'C compiler',
    debianPackages: ['gcc', 'libc6-dev'],
    variable: 'CC',
    find: () => {
      if (process.platform !== 'linux') throw new Error('LD_PRELOAD needs Linux.');
      return findCompiler()?.version;
    },
    tests: "The tests that move a server's clock, and those of the protocol's model",
  },
  chromium: {
    name: 'Chromium',
    debianPackages: ['chromium'],
    variable: 'CHROMIUM_BIN',
    find: () => findChromium()?.version,
    tests: 'The tests in a browser',
    elsewhere: '"brew install chromium" (macOS)',
  },
  rabbitmq: {
    name: 'RabbitMQ',
    debianPackages: ['rabbitmq-server'],
    variable: 'RABBITMQ_SERVER_BIN',
    find: () => {
      const found = findRabbitMq();
      return found && `RabbitMQ (${found.server})`;
    },
    tests: 'The tests on RabbitMQ',
    elsewhere: '"brew install rabbitmq" (macOS)',
  },
  nats: {
    name: 'nats-server',
    debianPackages: ['nats-server'],
    variable: 'NATS_SERVER_BIN',
    find: () => versionOf(findNats(), '--version', /^nats-server: \S+/),
    tests: 'The tests on NATS',
    elsewhere: '"brew install nats-server" (macOS)',
  },
  mosquitto: {
    name: 'Mosquitto',
    debianPackages: ['mosquitto'],
    variable: 'MOSQUITTO_BIN',
    // Only its help prints its version without listening.
    find: () => versionOf(findMosquitto(), '-h', /^mosquitto version \S+/),
    tests: 'The tests on MQTT',
    elsewhere: '"brew install mosquitto" (macOS)',
  },
  pgbouncer: {
    name: 'pgbouncer',
    debianPackages: ['pgbouncer'],
    variable: 'PGBOUNCER_BIN',
    find: () => versionOf(findPgBouncer(), '--version', /^PgBouncer \S+/),
    tests: 'The tests behind PgBouncer',
    elsewhere: '"brew install pgbouncer" (macOS)',
  },
  nginx: {
    name: 'nginx',
    debianPackages: ['nginx'],
    variable: 'NGINX_BIN',
    find: () => versionOf(findNginx(), '-v', /nginx\/\S+/),
    tests: 'The tests behind nginx',
    elsewhere: '"brew install nginx" (macOS)',
  },
  promtool: {
    name: 'promtool',
    debianPackages: ['prometheus'],
    variable: 'PROMTOOL_BIN',
    find: () => versionOf(findPromtool(), '--version', /^promtool, version \S+/),
    tests: 'The tests of the alerts',
    elsewhere: '"brew install prometheus" (macOS)',
  },
  spin: {
    name: 'spin 6',
    // It needs a C preprocessor, and the C compiler for what it makes of a model.
    debianPackages: ['spin', 'gcc', 'libc6-dev'],
    variable: 'SPIN_BIN',
    find: () => findSpin()?.version,
    tests: "The tests of the protocol's model",
    elsewhere: '"brew install spin" (macOS)',
  },
  valgrind: {
    name: 'Valgrind',
    debianPackages: ['valgrind'],
    variable: 'PATH',
    find: () => versionOf('valgrind', '--version', /^valgrind-\S+/),
    tests: 'The instructions of the scripts',
    elsewhere: 'the package valgrind (Linux)',
  },
  wrk: {
    name: 'wrk',
    debianPackages: ['wrk'],
    variable: 'WRK_BIN',
    find: () => versionOf(process.env.WRK_BIN ?? 'wrk', '-v', /^wrk \S+/),
    tests: 'Requests of the benchmark by wrk, instead of autocannon,',
    elsewhere: '"brew install wrk" (macOS)',
  },
};

function findRedis(): string | undefined {
  const program = process.env.REDIS_SERVER_BIN ?? 'redis-server';
  const version = versionOf(program, '--version', /v=\d+\.\d+\.\d+/)?.slice(2);
  if (version === undefined) return undefined;
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [oldestMajor, oldestMinor] = OLDEST_REDIS;
  if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) {
    throw new Error(`redis-server ${version} is too old.`);
  }
  return `redis-server ${version}`;
}

function versionOf(program: string | undefined, option: string, pattern: RegExp) {
  if (program === undefined) return undefined;
  const { stdout, stderr } = spawnSync(program, [option], { encoding: 'utf8' });
  // nginx writes it to stderr.
  return pattern.exec(`${stdout}${stderr}`)?.[0];
}
