import { asError } from '../../core/util/errors.js';
import { NoConnectionError } from './error-classification.js';
import type { PostgresConnection, PostgresPool } from './postgres-client.js';

/** A connection on loan from its pool. */
export interface Loan {
  readonly connection: PostgresConnection;
  /** @param isUsable - false closes it instead. */
  readonly giveBack: (isUsable: boolean) => void;
}

/**
 * Borrows a connection. While it is on loan nobody else hears its errors, which would end the process; statements
 * fail with them, too.
 *
 * @throws {@link NoConnectionError} there is none.
 */
export function borrow(pool: PostgresPool): Promise<Loan> {
  return new Promise((resolve, reject) => {
    borrowFor(pool, resolve, reject);
  });
}

/** As {@link borrow}, for who is told at once, without the promise in between. */
export function borrowFor(
  pool: PostgresPool,
  use: (loan: Loan) => void,
  fail: (error: NoConnectionError) => void,
): void {
  // Not by a promise: a connection may break before whoever awaits it has been told.
  pool.connect((error, connection) => {
    if (connection === undefined) {
      fail(new NoConnectionError('no connection', { cause: asError(error) }));
      return;
    }
    connection.on('error', ignore);
    const giveBack = (isUsable: boolean) => {
      connection.off('error', ignore);
      connection.release(!isUsable);
    };
    use({ connection, giveBack });
  });
}

function ignore(): void {
  // See above.
}
