import { asError } from '../../core/errors/errors.js';
import { missingPeer } from '../../core/util/missing-peer.js';
import { requirePeer } from '../../core/util/peers.js';
import type {
  MysqlConnection,
  MysqlConnections,
} from '../../transactions/shared/mysql-connections.js';
import type { MysqlOwnPoolOptions } from './mysql-store-options.js';

/** Documented at {@link MysqlOwnPoolOptions.connection}. */
const POOL_SETTINGS = {
  connectionLimit: 4,
  connectTimeout: 2_000,
  idleTimeout: 60_000,
  enableKeepAlive: true,
  charset: 'utf8mb4_bin',
};

/**
 * A statement whose caller has given up ends on the server, too. READ COMMITTED locks no gaps between rows: statements on
 * different keys then never wait for each other.
 */
const SESSION = [
  'SET SESSION innodb_lock_wait_timeout = 5',
  'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED',
];

const END_TIMEOUT_MS = 1_000;

type Use = Parameters<MysqlConnections['getConnection']>[0];

/** The pool that the store opens with the first command, and again after it was ended. */
export class LazyMysqlPool implements MysqlConnections {
  private pool: OwnPool | undefined;
  private endings = 0;

  constructor(private readonly address: Pick<MysqlOwnPoolOptions, 'url' | 'connection'>) {}

  getConnection(use: Use): void {
    if (this.pool !== undefined) {
      this.pool.getConnection(use);
      return;
    }
    const { endings } = this;
    loadMysql2().then(
      (mysql2) => {
        if (endings !== this.endings) failTo(use, new Error('The pool was ended.'));
        else (this.pool ??= this.open(mysql2)).getConnection(use);
      },
      (error: unknown) => {
        failTo(use, asError(error));
      },
    );
  }

  async end(): Promise<void> {
    const { pool } = this;
    this.endings += 1;
    this.pool = undefined;
    if (pool === undefined) return;
    let timeoutTimer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      // It waits for connections in use, but not for a server that does not reply.
      timeoutTimer = setTimeout(resolve, END_TIMEOUT_MS);
      pool.end(() => resolve());
    });
    clearTimeout(timeoutTimer);
  }

  private open({ createPool }: Mysql2): OwnPool {
    const { url, connection } = this.address;
    const pool = createPool({
      ...POOL_SETTINGS,
      ...(url !== undefined && { uri: url }),
      ...connection,
    });
    // Sent first: what uses the connection waits behind it.
    pool.on('connection', (opened) => {
      for (const sql of SESSION) opened.query({ sql }, () => undefined);
    });
    return pool;
  }
}

function failTo(use: Use, error: Error): void {
  (use as (error: Error) => void)(error);
}

interface OwnPool extends MysqlConnections {
  on(event: 'connection', listener: (connection: MysqlConnection) => void): unknown;
  end(use: () => void): void;
}

interface Mysql2 {
  readonly createPool: (settings: object) => OwnPool;
}

/** @throws {@link IdempotencyOptionsError} when mysql2 is not installed. */
export async function loadMysql2(): Promise<Mysql2> {
  try {
    const module = requirePeer('mysql2') ?? (await import('mysql2'));
    // Which of its names an ES module can import depends on its version.
    return (
      'createPool' in module ? module : (module as { readonly default: unknown }).default
    ) as Mysql2;
  } catch (error) {
    throw missingPeer(error, 'mysql2', 'mysqlStore opens its connections with');
  }
}
