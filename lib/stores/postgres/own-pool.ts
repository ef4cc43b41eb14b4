import { asError } from '../../core/errors/errors.js';
import { missingPeer } from '../../core/util/missing-peer.js';
import { requirePeer } from '../../core/util/peers.js';
import type { StoreWarning } from '../../core/store/idempotency-store.js';
import { isStartupParameter } from './connection/error-classification.js';
import type {
  PostgresPool,
  PostgresQuery,
  PostgresResult,
} from '../../transactions/shared/connections.js';
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
const TIME_LIMITS = { statement_timeout: 10_000, lock_timeout: 5_000 };

const TIME_LIMITS_REJECTED: StoreWarning = {
  code: 'postgres_time_limits_rejected',
  message:
    "A pooler refuses statement_timeout and lock_timeout at the start of a connection: the store does without them, and a statement whose caller has given up may run on. Set them for the user: ALTER ROLE … SET statement_timeout = '10s'; ALTER ROLE … SET lock_timeout = '5s'. Then add both to ignore_startup_parameters of the pooler, which ends this warning. Notifications of waiting duplicates require listenUrl, the address of the server itself.",
};

const END_TIMEOUT_MS = 1_000;

export type ServerAddress = Pick<OwnPoolOptions, 'url' | 'connection'>;

/** The pool that the store opens with the first command, and again after it was ended. */
export class LazyPool implements PostgresPool {
  /** Is called once, if the server is a pooler that refuses the store's time limits. */
  onWarning: (warning: StoreWarning) => void = () => undefined;
  private pool: OwnPool | undefined;
  private endings = 0;
  /** Whether the server is a pooler that refuses time limits. It does not support LISTEN either. */
  isPooler = false;
  private timeLimits: Partial<typeof TIME_LIMITS>;

  constructor(
    private readonly address: ServerAddress,
    preparedStatements: boolean,
  ) {
    this.timeLimits = preparedStatements ? TIME_LIMITS : {};
  }

  get totalCount(): number {
    return this.pool?.totalCount ?? 0;
  }

  connect(use: Parameters<PostgresPool['connect']>[0]): void {
    if (this.pool !== undefined) {
      this.connectTo(this.pool, use);
      return;
    }
    const { endings } = this;
    loadPg().then(
      (pg) => {
        if (endings === this.endings) this.connectTo((this.pool ??= this.open(pg)), use);
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

  private connectTo(pool: OwnPool, use: Parameters<PostgresPool['connect']>[0]): void {
    const { endings, rejectable } = this;
    openFrom(pool, (error, connection) => {
      const isRejected =
        isStartupParameter(error) && rejectable.some((name) => error?.message.includes(name));
      if (!isRejected || endings !== this.endings) {
        use(error, connection);
        return;
      }
      this.leaveOutTimeLimits(pool);
      this.connect(use);
    });
  }

  /** The time limits that the user did not set. */
  private get rejectable(): readonly string[] {
    const settings: Partial<Record<string, unknown>> = this.address.connection ?? {};
    return Object.keys(this.timeLimits).filter((name) => settings[name] === undefined);
  }

  /** Nothing was sent. A SET on each connection would reach other clients of the pooler, too. */
  private leaveOutTimeLimits(rejected: OwnPool): void {
    if (rejected !== this.pool) return;
    this.pool = undefined;
    this.timeLimits = {};
    this.isPooler = true;
    rejected.end().catch(() => undefined);
    this.onWarning(TIME_LIMITS_REJECTED);
  }

  private open({ Pool, Client }: Pg): OwnPool {
    const settings = { ...POOL_SETTINGS, ...this.timeLimits, ...settingsOf(this.address) };
    const pool = new Pool({ Client: closingClient(Client), ...settings });
    // An idle connection failed. The next command opens another one, and reports if that fails.
    pool.on('error', () => undefined);
    return pool;
  }
}

/** pg reads the files that a URL names, and throws if it cannot. */
function openFrom(pool: OwnPool, use: Parameters<PostgresPool['connect']>[0]): void {
  try {
    pool.connect(use);
  } catch (error) {
    use(asError(error), undefined);
  }
}

/** @returns a connection for LISTEN, not connected yet. */
export async function makeListeningClient(address: ServerAddress): Promise<OwnClient> {
  const { Client } = await loadPg();
  const { application_name, connectionTimeoutMillis, keepAlive } = POOL_SETTINGS;
  const settings = { application_name, connectionTimeoutMillis, keepAlive };
  return new (closingClient(Client))({ ...settings, ...settingsOf(address) });
}

/** Closes the socket if it cannot connect. That of pg waits for the server to do so, which keeps the process alive. */
function closingClient(Client: Pg['Client']): Pg['Client'] {
  return class extends Client {
    override connect(): Promise<unknown>;
    override connect(use: OnConnect): unknown;
    override connect(use?: OnConnect): unknown {
      if (use === undefined) {
        return super.connect().catch((error: unknown) => {
          this.connection?.stream.destroy();
          throw error;
        });
      }
      return super.connect((error, ...more) => {
        if (error) this.connection?.stream.destroy();
        use(error, ...more);
      });
    }
  };
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

type OnConnect = (error: Error | null | undefined, ...more: unknown[]) => void;

export interface OwnClient {
  /** Not in the client over libpq. */
  readonly connection?: { readonly stream: { destroy(): unknown } };
  connect(): Promise<unknown>;
  connect(use: OnConnect): unknown;
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
