const SERVER_TIME = 'statement_timestamp()';

/** The statement with another clock: `time` is an SQL expression for a timestamptz. */
export function withSqlClock(statement: string, time: string): string {
  for (const other of ['clock_timestamp', 'now()', 'current_timestamp', 'transaction_timestamp']) {
    if (statement.includes(other)) throw new Error(`A statement must not read ${other}`);
  }
  return statement.replaceAll(SERVER_TIME, () => time);
}
