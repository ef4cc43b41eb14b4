import type { Pool, QueryResultRow } from 'pg';

export interface MyTransaction {
  rawQuery(text: string, values: readonly unknown[]): Promise<readonly QueryResultRow[]>;
}

/** Stands for a library on PostgreSQL that has transactions by a callback. */
export class MyDatabase {
  constructor(private readonly pool: Pool) {}

  async transaction<Result>(
    { isolation }: { readonly isolation: string | undefined },
    callback: (handle: MyTransaction) => Promise<Result>,
  ): Promise<Result> {
    const client = await this.pool.connect();
    const rawQuery = async (text: string, values: readonly unknown[]) =>
      (await client.query<QueryResultRow>(text, [...values])).rows;
    try {
      await client.query(isolation === undefined ? 'BEGIN' : `BEGIN ISOLATION LEVEL ${isolation}`);
      const result = await callback({ rawQuery });
      const { command } = await client.query('COMMIT');
      if (command !== 'COMMIT') throw new Error('The transaction was rolled back.');
      client.release();
      return result;
    } catch (error) {
      // Rolls back, whatever state the connection is in.
      client.release(true);
      throw error;
    }
  }
}
