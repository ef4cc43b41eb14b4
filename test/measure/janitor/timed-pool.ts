import type { Pool } from 'pg';
import type {
  PostgresConnection,
  PostgresPool,
  PostgresQuery,
  PostgresResult,
} from 'nestjs-idempotency/postgres';

/** A pool that notes how long each statement took, reply included. */
export class TimedPool implements PostgresPool {
  /** Milliseconds. */
  readonly durations: number[] = [];

  constructor(private readonly pool: Pool) {}

  get totalCount(): number {
    return this.pool.totalCount;
  }

  connect(
    callback: (error: Error | undefined, connection: PostgresConnection | undefined) => void,
  ): void {
    this.pool.connect((error, connection) => {
      callback(error, connection && this.timed(connection));
    });
  }

  private timed(connection: PostgresConnection): PostgresConnection {
    return {
      query: async (query: PostgresQuery): Promise<PostgresResult> => {
        const sentAt = performance.now();
        const result = await connection.query(query);
        this.durations.push(performance.now() - sentAt);
        return result;
      },
      release: (destroy) => {
        connection.release(destroy);
      },
      on: (event, listener) => connection.on(event, listener),
      off: (event, listener) => connection.off(event, listener),
    };
  }
}
