import type { TableName } from '../sql/table-name.js';
import {
  error,
  ok,
  orOk,
  warning,
  type Finding,
  type Place,
} from '../../../core/store/diagnosis/finding.js';

/** The warnings of the store's start: what they are about. */
export const POSTGRES_WARNINGS: Readonly<Record<string, Place>> = {
  postgres_unreachable: ['connection', 'error'],
  postgres_is_replica: ['role', 'error'],
  postgres_not_durable: ['durability', 'warning'],
  postgres_commits_late: ['durability', 'warning'],
  postgres_table_unlogged: ['durability', 'warning'],
};

/** What a statement reads as text, by the names of the settings and columns. */
export type Row = Readonly<Record<string, string | null | undefined>>;

const FULL = 0.8;

/** The table asks for autovacuum at 1,000 dead rows and two percent: far above, it does not keep up. */
const DEAD_ROWS = 10_000;
const DEAD_SHARE = 0.5;

const SETTINGS = [
  ...['server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'max_connections'],
  ...['default_transaction_isolation', 'autovacuum', 'track_counts', 'autovacuum_naptime'],
];

export const SERVER_SQL = `SELECT ${SETTINGS.map((name) => `current_setting('${name}') AS ${name}`).join(', ')},
  pg_is_in_recovery() AS is_replica,
  (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections`;

export const CLOCK_SQL = 'SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now';

const PRIVILEGES = ['SELECT', 'INSERT', 'UPDATE', 'DELETE'];

/** $1: the table. */
export const PRIVILEGES_SQL = `SELECT ${PRIVILEGES.map(
  (name) => `has_table_privilege($1::regclass, '${name}') AS ${name.toLowerCase()}`,
).join(', ')}`;

/** $1: the table. A table without statistics has never been written. */
export const VACUUM_SQL = `SELECT array_to_string(reloptions, ' ') AS options, n_live_tup AS live, n_dead_tup AS dead,
  last_autovacuum::text AS vacuumed_at
FROM pg_class LEFT JOIN pg_stat_all_tables ON relid = pg_class.oid
WHERE pg_class.oid = $1::regclass`;

export function expiredSql({ quoted }: TableName): string {
  return `SELECT EXISTS (
  SELECT 1 FROM ${quoted} WHERE expires_at < clock_timestamp() - interval '1 hour'
) AS is_kept`;
}

/** $1: the table of the journal. */
export const JOURNAL_SQL = `SELECT has_table_privilege(to_regclass($1), 'SELECT') AS is_readable,
  (SELECT n_live_tup FROM pg_stat_all_tables WHERE relid = to_regclass($1)) AS entries`;

export function oldestSql({ quoted }: TableName): string {
  return `SELECT to_char(min(at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS oldest FROM ${quoted}`;
}

/** @param found - the warnings of the store's start. */
export function checkSettings(row: Row, found: readonly Finding[]): Finding[] {
  return [
    ok('version', `PostgreSQL ${row.server_version ?? 'unknown'}.`),
    ...orOk(found, 'role', 'A primary.'),
    connectionsOf(row),
    ...orOk(
      [...found, ...tornPages(row)],
      'durability',
      `fsync is ${row.fsync ?? 'unknown'}, synchronous_commit is ${row.synchronous_commit ?? 'unknown'}.`,
    ),
    isolationOf(row),
    ...found.filter(({ check }) => check !== 'role' && check !== 'durability'),
  ];
}

function connectionsOf({ connections, max_connections: limit }: Row): Finding {
  const found = `${connections ?? '?'} of ${limit ?? '?'} connections are in use.`;
  return Number(connections) / Number(limit) < FULL
    ? ok('connections', found)
    : warning(
        'connections',
        `${found} A store that gets none rejects its requests. Open fewer, or raise max_connections.`,
      );
}

function tornPages({ full_page_writes: setting }: Row): Finding[] {
  if (setting !== 'off') return [];
  return [
    warning(
      'durability',
      'full_page_writes is off. A crash of the machine may corrupt the database, unless its file system prevents torn pages. Set it to on.',
    ),
  ];
}

function isolationOf({ default_transaction_isolation: isolation }: Row): Finding {
  const found = `default_transaction_isolation is ${isolation ?? 'unknown'}.`;
  return isolation === 'read committed'
    ? ok('isolation', found)
    : warning(
        'isolation',
        `${found} The store works, but sends a statement again when the server reports a conflict, which costs time under load. Set it to 'read committed' for the user of the store: ALTER ROLE … SET default_transaction_isolation = 'read committed'.`,
      );
}

/** @param deletes - whether the store deletes expired records. */
export function checkPrivileges(row: Row, { quoted }: TableName, deletes: boolean): Finding {
  const needed = PRIVILEGES.filter((name) => deletes || name !== 'DELETE');
  const missing = needed.filter((name) => row[name.toLowerCase()] !== 'true');
  return missing.length === 0
    ? ok('rights', `The user may ${needed.join(', ')} on ${quoted}.`)
    : error(
        'rights',
        `The user may not ${missing.join(', ')} on ${quoted}. Grant it: GRANT ${missing.join(', ')} ON ${quoted} TO …`,
      );
}

export function checkVacuum(server: Row, table: Row): Finding {
  const live = Number(table.live ?? 0);
  const dead = Number(table.dead ?? 0);
  const last = table.vacuumed_at ?? 'never';
  const found = `${live} rows and ${dead} dead ones; last autovacuum: ${last}.`;
  if (server.autovacuum === 'off' || server.track_counts === 'off') {
    return warning(
      'autovacuum',
      `${found} Autovacuum is off on the server: the table grows for ever. Set autovacuum and track_counts to on.`,
    );
  }
  if (/autovacuum_enabled=(?:false|off|0)/.test(table.options ?? '')) {
    return warning(
      'autovacuum',
      `${found} Autovacuum is off for the table, which grows for ever: ALTER TABLE … RESET (autovacuum_enabled).`,
    );
  }
  if (dead > DEAD_ROWS && dead > (live + dead) * DEAD_SHARE) {
    return warning(
      'autovacuum',
      `${found} Autovacuum does not keep up. Lower autovacuum_naptime (${server.autovacuum_naptime ?? 'unknown'}), and look for a transaction that is open for long.`,
    );
  }
  return ok('autovacuum', found);
}

export function checkDeletion({ is_kept: isKept }: Row): Finding {
  return isKept === 'true'
    ? warning(
        'deletion',
        'Records that expired more than an hour ago are still there: nothing deletes them. Does an application run with deleteExpired, or a job of the database?',
      )
    : ok('deletion', 'No record that expired more than an hour ago is left.');
}
