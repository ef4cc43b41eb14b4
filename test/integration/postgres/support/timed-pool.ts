import type { Pool } from 'pg';
import type { PostgresConnection, PostgresPool } from 'nestjs-idempotency/postgres';

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
      query: (query, values, callback) => {
        const sentAt = performance.now();
        connection.query(query, values, (error, result) => {
          this.durations.push(performance.now() - sentAt);
          callback(error, result);
        });
      },
      release: (destroy) => {
        connection.release(destroy);
      },
      on: (event, listener) => connection.on(event, listener),
      off: (event, listener) => connection.off(event, listener),
    };
  }
}
