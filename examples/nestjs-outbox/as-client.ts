import type { Knex } from 'knex';
import type { PgTransaction } from 'nestjs-idempotency/pg';
import type { Pool } from 'pg';

const connect = () => Promise.reject(new Error('The client of a transaction is connected.'));

/** A transaction of `pgUnitOfWork()` in the shape of a client, which `fromPg()` takes. */
export const pgAsClient = ({ query }: PgTransaction<Pool>) => ({ query, connect });

/** The same of a transaction of `knexUnitOfWork()`: Knex has `?` where PostgreSQL has `$1`. */
export const knexAsClient = (transaction: Knex.Transaction) => ({
  connect,
  query(text: string, values: readonly Knex.RawBinding[] = []) {
    const bindings: Knex.RawBinding[] = [];
    const sql = text.replace(/\$(\d+)|\?/g, (_, place?: string) => {
      if (place === undefined) return '\\?';
      bindings.push(values[Number(place) - 1] ?? null);
      return '?';
    });
    return transaction.raw<{ rows: object[] }>(sql, bindings);
  },
});
