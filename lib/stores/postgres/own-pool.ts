import { asError } from '../../core/util/errors.js';
import { missingPeer } from '../../core/util/missing-peer.js';
import { requirePeer } from '../../core/util/peers.js';
import type { PostgresPool, PostgresQuery, PostgresResult } from './connection/postgres-client.js';
import type { OwnPoolOptions } from './postgres-store-options.js';

/** Documented at {@link OwnPoolOptions.connection}. */
const POOL_SETTINGS = {
  max: 4,
  application_name: 'nestjs-idempotency',
  connectionTimeoutMillis: 2_000,
  idleTimeoutMillis: 60_000,
  keepAlive: true,
  allowExitOnIdle: true,
};
const SERVER_SETTINGS = { statement_timeout: 10_000, lock_timeout: 5_000 };

const END_TIMEOUT_MS = 1_000;

export type ServerAddress = Pick<OwnPoolOptions, 'url' | 'connection'>;

/** The pool that the store opens with the first command, and again after it was ended. */
export class LazyPool implements PostgresPool {
  private pool: OwnPool | undefined;
  private endings = 0;

  constructor(
    private readonly address: ServerAddress,
    private readonly preparedStatements: boolean,
  ) {}

  get totalCount(): number {
    return this.pool?.totalCount ?? 0;
  }

  connect(use: Parameters<PostgresPool['connect']>[0]): void {
    if (this.pool !== undefined) {
      this.pool.connect(use);
      return;
    }
    const { endings } = this;
    loadPg().then(
      (pg) => {
        if (endings === this.endings) (this.pool ??= this.open(pg)).connect(use);
        else use(new Error('The pool was ended.'), undefined);
      },
      (error: unknown) => {
        use(asError(error), undefined);
      },
    );
  }

  async end(): Promise<void> {
    const { pool } = this;
    this.endings += 1;
    this.pool = undefined;
    if (pool !== undefined) await endWithin(pool);
  }

  private open({ Pool }: Pg): OwnPool {
    const serverSettings = this.preparedStatements ? SERVER_SETTINGS : {};
    const pool = new Pool({ ...POOL_SETTINGS, ...serverSettings, ...settingsOf(this.address) });
    // An idle connection failed. The next command opens another one, and reports if that fails.
    pool.on('error', () => undefined);
    return pool;
  }
}

/** @returns a connection for LISTEN, not connected yet. */
export async function makeListeningClient(address: ServerAddress): Promise<OwnClient> {
  const { Client } = await loadPg();
  const { application_name, connectionTimeoutMillis, keepAlive } = POOL_SETTINGS;
  const settings = { application_name, connectionTimeoutMillis, keepAlive };
  return new Client({ ...settings, ...settingsOf(address) });
}

/** Closes idle connections at once and waits for the others, but not for a server that does not reply. */
export async function endWithin(connections: { end(): Promise<void> }): Promise<void> {
  let timeoutTimer: NodeJS.Timeout | undefined;
  const timeout = new Promise<void>((resolve) => {
    timeoutTimer = setTimeout(resolve, END_TIMEOUT_MS);
  });
  await Promise.race([connections.end(), timeout]);
  clearTimeout(timeoutTimer);
}

function settingsOf({ url, connection }: ServerAddress): object {
  return { ...(url !== undefined && { connectionString: url }), ...connection };
}

interface OwnPool extends PostgresPool {
  on(event: 'error', listener: (error: Error) => void): unknown;
  end(): Promise<void>;
}

export interface OwnClient {
  connect(): Promise<unknown>;
  query(query: PostgresQuery): Promise<PostgresResult>;
  end(): Promise<void>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  on(event: 'notification', listener: (message: { payload?: string }) => void): unknown;
}

interface Pg {
  readonly Pool: new (settings: object) => OwnPool;
  readonly Client: new (settings: object) => OwnClient;
}

/** @throws {@link IdempotencyOptionsError} when pg is not installed. */
export async function loadPg(): Promise<Pg> {
  try {
    const module = requirePeer('pg') ?? (await import('pg'));
    // Which of its names an ES module can import depends on its version.
    return ('Pool' in module ? module : (module as { readonly default: unknown }).default) as Pg;
  } catch (error) {
    throw missingPeer(error, 'pg', 'postgresStore opens its connections with');
  }
}
