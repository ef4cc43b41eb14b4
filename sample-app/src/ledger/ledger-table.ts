/** One transaction: of several processes that start at once, one creates the table. */
export function createLedgerTable(table: string): string {
  return `
    SELECT pg_advisory_xact_lock(hashtext('${table}'));
    CREATE TABLE IF NOT EXISTS ${table} (
      id text PRIMARY KEY,
      kind text NOT NULL CHECK (kind IN ('charge', 'refund')),
      reference text NOT NULL,
      user_id text NOT NULL,
      amount integer NOT NULL CHECK (amount > 0),
      currency text CHECK ((kind = 'charge') = (currency IS NOT NULL)),
      description text,
      charge_id text REFERENCES ${table} CHECK ((kind = 'refund') = (charge_id IS NOT NULL)),
      fencing_token bigint NOT NULL,
      at timestamptz NOT NULL
    );
    CREATE INDEX IF NOT EXISTS ledger_reference ON ${table} (reference);
    CREATE INDEX IF NOT EXISTS ledger_charge_id ON ${table} (charge_id);`;
}
