import { asError } from '../../core/errors/errors.js';
import type {
  PostgresConnection,
  PostgresConnections,
  PostgresExecutor,
  PostgresPool,
  PostgresQuery,
  PostgresResult,
} from './connections.js';
import { TERMINATE } from './sql-reply.js';
import { unwrapServerError } from './sql-state.js';
import type { SqlTransaction, TransactionValue } from './sql-transaction.js';

/** @param name - of the function that makes it. */
export function executorOfPool(name: string, pool: PostgresPool): PostgresExecutor {
  return {
    name,
    kind: 'driver',
    // Not bound: tools of observation may replace the method later.
    connect: (use) => {
      pool.connect(use);
    },
  };
}

/** Hands out what a library checks out by a promise. */
export function connectBy(
  checkOut: () => Promise<PostgresConnection>,
): PostgresConnections['connect'] {
  return (use) => {
    checkOut().then(
      (connection) => {
        use(undefined, connection);
      },
      (error: unknown) => {
        use(asError(error), undefined);
      },
    );
  };
}

/** A client of pg, as far as the store and an executor use it. */
export interface PgClient extends Pick<PostgresConnection, 'query' | 'on' | 'off'> {
  end(): Promise<void>;
}

/** A client of pg that a library has checked out of its pool. */
export class DriverConnection implements PostgresConnection {
  /** @param giveBack - returns the client to the pool, which drops one that is closed. Gets its end, if it is to be. */
  constructor(
    private readonly client: PgClient,
    private readonly giveBack: (ended?: Promise<void>) => void,
  ) {}

  query(
    query: PostgresQuery,
    values: unknown[],
    callback: (error: Error | null | undefined, result: PostgresResult) => void,
  ): void {
    this.client.query(query, values, callback);
  }

  release(destroy = false): void {
    // Closes the socket at once if a reply is pending.
    this.giveBack(destroy ? this.client.end().catch(() => undefined) : undefined);
  }

  on(event: 'error', listener: (error: Error) => void): void {
    this.client.on(event, listener);
  }

  off(event: 'error', listener: (error: Error) => void): void {
    this.client.off(event, listener);
  }
}

const NO_RESULT: PostgresResult = { rows: [] };

/** Runs statements by a method of a library, which hands out no client of pg. */
export class StatementConnection implements PostgresConnection {
  private pending: Promise<void> | undefined;

  /**
   * @param send - sends a statement.
   * @param giveBack - returns the connection to its pool.
   */
  constructor(
    private readonly send: SqlTransaction['query'],
    private readonly giveBack: () => void = () => undefined,
  ) {}

  query(
    { text }: PostgresQuery,
    values: unknown[],
    callback: (error: Error | null | undefined, result: PostgresResult) => void,
  ): void {
    const pending = this.send(text, values as TransactionValue[]).then(
      (rows) => {
        this.pending = undefined;
        callback(undefined, { rows });
      },
      (error: unknown) => {
        this.pending = undefined;
        callback(unwrapServerError(error), NO_RESULT);
      },
    );
    this.pending = pending;
  }

  /** One that owes a reply returns with it: to cancel the statement could hit the next one, of the application. */
  release(destroy = false): void {
    const { pending } = this;
    if (pending !== undefined) {
      void pending.then(this.giveBack);
    } else if (destroy) {
      this.send(TERMINATE, []).then(this.giveBack, this.giveBack);
    } else {
      this.giveBack();
    }
  }

  on(): void {
    // The library listens to its connections, or the application does: see its unit of work.
  }

  off(): void {
    // Nothing listens.
  }
}
