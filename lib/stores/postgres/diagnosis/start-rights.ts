import { hasCode, StoreConfigurationError } from '../../../core/errors/errors.js';
import type { Deadline } from '../connection/deadline.js';
import { policyRemedy } from '../connection/error-classification.js';
import { ON_PRIMARY, sqlStatement } from '../sql/sql-statements.js';
import type { TableName } from '../sql/table-name.js';
import type { StatementRunner } from '../statements/statement-runner.js';

const NONE = '-';

const missing = (what: string) =>
  `coalesce(string_agg(command, ',') FILTER (WHERE missing = '${what}'), '${NONE}')`;

/**
 * $1: the table, $2: the commands that count. After the nonce, the commands that the user lacks a privilege for, and those for
 * which row level security has no policy. A policy with a condition counts as one, and a column as the whole table: the steps
 * of the start show what they are worth.
 */
const RIGHTS = sqlStatement(
  'rights',
  `${ON_PRIMARY}SELECT concat_ws(' ', $3::text, ${missing('privilege')}, ${missing('policy')}) AS reply
FROM (
  SELECT command, CASE
    WHEN NOT CASE command
      WHEN 'DELETE' THEN has_table_privilege(records, command)
      ELSE has_any_column_privilege(records, command)
    END THEN 'privilege'
    WHEN row_security_active(records) AND NOT EXISTS (
      SELECT FROM pg_catalog.pg_policy
      WHERE polrelid = records AND polpermissive AND polcmd IN ('*', letter) AND (
        0 = ANY (polroles)
        OR EXISTS (SELECT FROM unnest(polroles) AS role WHERE pg_has_role(role, 'USAGE'))
      )
    ) THEN 'policy'
  END AS missing
  FROM (VALUES
    ('SELECT', 'r'::"char"), ('INSERT', 'a'::"char"), ('UPDATE', 'w'::"char"), ('DELETE', 'd'::"char")
  ) AS needed (command, letter), (SELECT to_regclass($1)::oid AS records) AS found
  WHERE command = ANY ($2::text[])
) AS commands`,
);

/**
 * Checks the user's rights on a table. The journal is never updated, and read for its deletion alone.
 * @throws {@link StoreConfigurationError} naming those that are missing.
 */
export async function checkRights(
  runner: StatementRunner,
  table: TableName,
  deletes: boolean,
  deadline: Deadline,
): Promise<void> {
  const deleting = deletes ? ['DELETE'] : [];
  const needed =
    table.kind === 'journal'
      ? ['INSERT', ...(deletes ? ['SELECT'] : []), ...deleting]
      : ['SELECT', 'INSERT', 'UPDATE', ...deleting];
  const [privileges = NONE, policies = NONE] = await lacking(runner, table, needed, deadline);
  const { quoted } = table;
  if (privileges !== NONE) {
    const commands = privileges.replaceAll(',', ', ');
    const instead = commands.endsWith('DELETE')
      ? ' Or set deleteExpired: false, and delete expired records by other means.'
      : '';
    throw new StoreConfigurationError(
      `The user may not ${commands} on ${quoted}. Grant it: GRANT ${commands} ON ${quoted} TO …${instead}`,
    );
  }
  if (policies !== NONE) {
    throw new StoreConfigurationError(
      `Row level security of ${quoted} has no policy by which the user may ${policies.replaceAll(',', ', ')}. ${policyRemedy(quoted)}`,
    );
  }
}

async function lacking(
  runner: StatementRunner,
  table: TableName,
  needed: readonly string[],
  deadline: Deadline,
): Promise<readonly string[]> {
  try {
    return await runner.run(RIGHTS, [table.quoted, `{${needed.join()}}`], deadline);
  } catch (error) {
    // Another database that speaks its protocol: its catalog differs. The steps show what the user may do.
    if (hasCode(error, 'idempotency_store_misconfigured')) return [];
    throw error;
  }
}
