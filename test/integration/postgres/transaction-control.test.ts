import { beforeAll, describe, expect, it } from '@jest/globals';
import type { Pool, PoolClient } from 'pg';
import {
  PostgresUnitOfWork,
  type OpenTransaction,
  type TransactionOptions,
} from 'nestjs-idempotency/transactions';
import { migrate } from 'nestjs-idempotency/postgres';
import { postgresServers } from '../../support/postgres/postgres-servers.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { ownStore, userPool } from './support/fixture.js';
import { TransactionalAttempt } from './support/transactional-attempt.js';

/** A custom adapter that does not block transaction statements. */
class OpenHearted extends PostgresUnitOfWork<PoolClient> {
  constructor(private readonly pool: Pool) {
    super();
  }

  async run<Result>(
    _options: TransactionOptions,
    work: (transaction: OpenTransaction<PoolClient>) => Promise<Result>,
  ): Promise<Result> {
    const handle = await this.pool.connect();
    try {
      await handle.query('BEGIN');
      const query: OpenTransaction['query'] = async (text, values) =>
        (await handle.query(text, [...values])).rows;
      const result = await work({ handle, query });
      await handle.query('COMMIT');
      return result;
    } catch (error) {
      await handle.query('ROLLBACK');
      throw error;
    } finally {
      handle.release();
    }
  }
}

describe.each(postgresServers)('A handler on $name', (version) => {
  const server = usePostgres(version);
  let url: string;

  beforeAll(async () => {
    url = await server.newDatabase();
    await migrate({ url });
    const pool = userPool(url);
    await pool.query('CREATE TABLE ledger (note text)');
  });

  const opened = async () => {
    const pool = userPool(url);
    await pool.query('TRUNCATE ledger');
    const attempt = new TransactionalAttempt(ownStore(url), new OpenHearted(pool));
    const lease = await attempt.begin();
    const held = await attempt.open(lease);
    const run = (text: string) => (held.transaction.handle as PoolClient).query(text);
    const notes = async () => {
      const { rows } = await pool.query<{ note: string }>('SELECT note FROM ledger ORDER BY note');
      return rows.map(({ note }) => note);
    };
    const state = async () => {
      const { rows } = await pool.query<{ state: string }>(
        'SELECT state FROM idempotency_records WHERE record_key = $1',
        [Buffer.from(lease.recordKey, 'base64url')],
      );
      return rows[0]?.state;
    };
    return { attempt, lease, held, run, notes, state };
  };

  it.each([
    ['COMMIT', ['before']],
    ['ROLLBACK', []],
    ['COMMIT; BEGIN', ['before']],
    ['ROLLBACK; BEGIN', []],
    ['COMMIT AND CHAIN', ['before']],
    ['ROLLBACK AND CHAIN', []],
  ])('that sends %s has no outcome stored', async (words, notes) => {
    const { attempt, lease, held, run, ...see } = await opened();
    await run(`INSERT INTO ledger VALUES ('before')`);
    await run(words);
    expect(await attempt.commit(held, lease)).toMatchObject({
      kind: 'failed',
      error: new Error('The outcome was not stored'),
      isCommitSent: false,
    });
    expect(await see.state()).toBe('in_progress');
    expect(await see.notes()).toEqual(notes);
  });

  it('that sends a second BEGIN, of which PostgreSQL only warns, stays in the same transaction', async () => {
    const { attempt, lease, held, run, ...see } = await opened();
    await run('BEGIN');
    await run(`INSERT INTO ledger VALUES ('in it')`);
    expect(await attempt.commit(held, lease)).toEqual({ kind: 'committed' });
    expect(await see.state()).toBe('completed');
    expect(await see.notes()).toEqual(['in it']);
  });

  it.each(['ROLLBACK TO SAVEPOINT here', 'RELEASE SAVEPOINT here'])(
    'that sends %s has its outcome stored',
    async (words) => {
      const { attempt, lease, held, run, ...see } = await opened();
      await run(`INSERT INTO ledger VALUES ('before')`);
      await run('SAVEPOINT here');
      await run(words);
      expect(await attempt.commit(held, lease)).toEqual({ kind: 'committed' });
      expect(await see.state()).toBe('completed');
      expect(await see.notes()).toEqual(['before']);
    },
  );

  it('that deleted the record has no outcome stored', async () => {
    const { attempt, lease, held, run, ...see } = await opened();
    await run('DELETE FROM idempotency_records');
    expect(await attempt.commit(held, lease)).toMatchObject({ kind: 'failed' });
    expect(await see.state()).toBe('in_progress');
  });
});
