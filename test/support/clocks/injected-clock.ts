const SERVER_TIME = "redis.call('TIME')";
/** A duration from which the server computes the expiry itself. */
const DURATION = "'PX', ";

/**
 * The script with another clock: `time` is a Lua expression for a table of seconds and microseconds, as
 * `TIME` returns them.
 */
export function withClock(script: string, time: string): string {
  const [before, after, ...more] = script.split(SERVER_TIME);
  if (before === undefined || after === undefined || more.length > 0) {
    throw new Error(`A script must read the clock exactly once, by ${SERVER_TIME}`);
  }
  return before + time + after.replaceAll(DURATION, "'PXAT', now + ");
}

const STATEMENT_TIME = 'statement_timestamp()';

/** The statement with another clock: `time` is an SQL expression for a timestamptz. */
export function withSqlClock(statement: string, time: string): string {
  for (const other of ['clock_timestamp', 'now()', 'current_timestamp', 'transaction_timestamp']) {
    if (statement.includes(other)) throw new Error(`A statement must not read ${other}`);
  }
  return statement.replaceAll(STATEMENT_TIME, () => time);
}

/** A statement of MySQL with another clock: `time` is an SQL expression for a datetime of UTC. */
export function withMysqlClock(statement: string, time: string): string {
  for (const other of [/\bNOW\(/i, /CURRENT_TIMESTAMP/i, /SYSDATE/i, /UNIX_TIMESTAMP/i]) {
    if (other.test(statement)) throw new Error(`A statement must not read ${String(other)}`);
  }
  return statement.replaceAll('UTC_TIMESTAMP(6)', () => time);
}
