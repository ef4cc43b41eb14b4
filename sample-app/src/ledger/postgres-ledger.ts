import { currentIdempotencyTransaction, requireIdempotencyTransaction } from 'nestjs-idempotency';
import type { PgTransaction } from 'nestjs-idempotency/pg';
import type { Pool } from 'pg';
import { checkEntry, superseded } from './check-entry.js';
import { createLedgerTable } from './ledger-table.js';
import { type Charge, Ledger, type LedgerEntry, type LedgerQuery, type Refund } from './ledger.js';

/** The pool, or one of its connections in a transaction. */
type Database = PgTransaction<Pool>;

type Row = RowOf<Charge> | RowOf<Refund>;
/** As pg returns it: a `bigint` as text, a `timestamptz` as a date, a missing value as null. */
type RowOf<Entry> = Omit<Entry, 'fencingToken' | 'at' | 'description'> & {
  readonly fencingToken: string;
  readonly at: Date;
  readonly description: string | null;
};

const columns = { id: 'id', reference: 'reference', chargeId: 'charge_id' } as const;

/** A ledger in a table. A refund is booked in the transaction that also commits the record of its request. */
export class PostgresLedger extends Ledger {
  readonly #table: string;

  /** @param schema - must exist. */
  constructor(
    private readonly pool: Pool,
    schema: string,
  ) {
    super();
    this.#table = `${schema}.ledger`;
  }

  async createTable(): Promise<void> {
    await this.pool.query(createLedgerTable(this.#table));
  }

  async append(entry: LedgerEntry): Promise<void> {
    if (entry.kind === 'charge') {
      await this.#checkAndInsert(this.pool, entry, entry.id);
    } else {
      const transaction = requireIdempotencyTransaction<Database>();
      // Blocks concurrent refunds of this charge until the commit.
      const lock = `SELECT FROM ${this.#table} WHERE id = $1 FOR UPDATE`;
      await transaction.query(lock, [entry.chargeId]);
      await this.#checkAndInsert(transaction, entry, entry.chargeId);
    }
  }

  entries(query: LedgerQuery = {}): Promise<readonly LedgerEntry[]> {
    const names = Object.keys(query) as (keyof LedgerQuery)[];
    const conditions = names.map((name, index) => `${columns[name]} = $${index + 1}`);
    const values = names.map((name) => query[name]);
    // In a transaction: sees its own writes, and needs no second connection.
    const database = currentIdempotencyTransaction<Database>() ?? this.pool;
    return this.#select(database, ['true', ...conditions].join(' AND '), values);
  }

  async #checkAndInsert(database: Database, entry: LedgerEntry, chargeId: string): Promise<void> {
    const related = 'reference = $1 OR id = $2 OR charge_id = $2';
    checkEntry(entry, await this.#select(database, related, [entry.reference, chargeId]));
    const { rowCount } = await database.query(
      `INSERT INTO ${this.#table}
        (id, kind, reference, user_id, amount, fencing_token, at, currency, description, charge_id)
      SELECT $1, $2, $3, $4, $5::integer, $6::bigint, $7::timestamptz, $8, $9, $10
      WHERE NOT EXISTS (
        SELECT FROM ${this.#table} WHERE reference = $3 AND fencing_token > $6::bigint
      )`,
      valuesOf(entry),
    );
    // A process can also freeze between the check and the write.
    if (rowCount === 0) throw superseded();
  }

  async #select(database: Database, condition: string, values: unknown[]): Promise<LedgerEntry[]> {
    const { rows } = await database.query<Row>(
      `SELECT id, kind, reference, user_id AS "userId", amount, fencing_token AS "fencingToken", at,
        currency, description, charge_id AS "chargeId"
      FROM ${this.#table} WHERE ${condition} ORDER BY at`,
      values,
    );
    return rows.map(entryOf);
  }
}

function valuesOf(entry: LedgerEntry): unknown[] {
  const { id, kind, reference, userId, amount, fencingToken, at } = entry;
  const movement = [id, kind, reference, userId, amount, fencingToken, at];
  return entry.kind === 'charge'
    ? [...movement, entry.currency, entry.description, null]
    : [...movement, null, null, entry.chargeId];
}

function entryOf(row: Row): LedgerEntry {
  const { id, reference, userId, amount } = row;
  const fencingToken = Number(row.fencingToken);
  const movement = { id, reference, userId, amount, fencingToken, at: row.at.toISOString() };
  return row.kind === 'charge'
    ? {
        ...movement,
        kind: row.kind,
        currency: row.currency,
        description: row.description ?? undefined,
      }
    : { ...movement, kind: row.kind, chargeId: row.chargeId };
}
