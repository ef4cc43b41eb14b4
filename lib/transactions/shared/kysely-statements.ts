import { randomUUID } from 'node:crypto';
import { MysqlGuard, replace, type GuardedSession } from './mysql-guard.js';
import type { SqlTransaction } from './sql-transaction.js';

/** A transaction of Kysely, or Kysely itself. Structural: MikroORM 7 has one, and brings a Kysely of its own. */
export interface KyselyLike {
  withoutPlugins(): KyselyLike;
  executeQuery(query: RawStatement): Promise<Reply>;
  getExecutor(): {
    provideConnection<Result>(
      use: (connection: KyselyConnection) => Promise<Result>,
    ): Promise<Result>;
  };
}

interface Reply {
  readonly rows: readonly unknown[];
}

/** A connection that Kysely has checked out. */
interface KyselyConnection {
  executeQuery(query: RawStatement, ...rest: never[]): Promise<Reply>;
  streamQuery(query: RawStatement, ...rest: never[]): AsyncIterableIterator<Reply>;
}

/** What `CompiledQuery.raw()` of Kysely makes. */
interface RawStatement {
  readonly sql: string;
  readonly parameters: readonly unknown[];
}

function raw(sql: string, parameters: readonly unknown[]): RawStatement {
  const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] };
  return { sql, parameters, ...{ query, queryId: { queryId: randomUUID() } } };
}

/**
 * Runs statements of PostgreSQL.
 * @param db - a transaction, or a connection.
 */
export function kyselyQuery(db: KyselyLike): SqlTransaction['query'] {
  // Plugins are meant for rows of the application: CamelCasePlugin would rename the columns.
  const plain = db.withoutPlugins();
  return async (text, values) => {
    const { rows } = await plain.executeQuery(raw(text, [...values]));
    return rows as readonly object[];
  };
}

/** Watches the connection of a transaction on MySQL, until COMMIT or ROLLBACK is replied to. */
export async function guardKysely(transaction: KyselyLike): Promise<GuardedSession> {
  // Kysely hands out no connection of mysql2.
  const connection = await transaction
    .getExecutor()
    .provideConnection((one) => Promise.resolve(one));
  const guard = new MysqlGuard();
  const original = connection.executeQuery.bind(connection);
  const stream = connection.streamQuery.bind(connection);
  const restores: (() => void)[] = [];
  const restore = () => {
    for (const giveBack of restores.splice(0)) giveBack();
  };
  const guarded: KyselyConnection['executeQuery'] = async (query, ...rest) => {
    const refusal = guard.refusal(query.sql);
    if (refusal !== undefined) throw refusal;
    try {
      return await original(query, ...rest);
    } catch (error) {
      guard.note(error);
      throw error;
    } finally {
      if (guard.isEnd(query.sql)) restore();
    }
  };
  const guardedStream = async function* (query: RawStatement, ...rest: never[]) {
    const refusal = guard.refusal(query.sql);
    if (refusal !== undefined) throw refusal;
    try {
      yield* stream(query, ...rest);
    } catch (error) {
      guard.note(error);
      throw error;
    }
  };
  restores.push(replace(connection, 'executeQuery', guarded));
  restores.push(replace(connection, 'streamQuery', guardedStream));
  return {
    guard,
    execute: async (sql, values) => (await original(raw(sql, values))).rows as readonly object[],
    restore,
  };
}
