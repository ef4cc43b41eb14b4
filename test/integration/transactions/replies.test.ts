import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import openKnex from 'knex';
import { CamelCasePlugin, Kysely, ParseJSONResultsPlugin, PostgresDialect } from 'kysely';
import { knexUnitOfWork } from 'nestjs-idempotency/knex';
import { kyselyUnitOfWork } from 'nestjs-idempotency/kysely';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import { migrate } from 'nestjs-idempotency/postgres';
import type { UnitOfWork } from '../../support/internals/core.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { ShiftingRelay } from '../../support/postgres/shifting-relay.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { closeAfterTest, ownStore, throughPort, userPool } from '../postgres/support/fixture.js';
import { TransactionalAttempt } from '../postgres/support/transactional-attempt.js';
import { adapterNames, adapterOf } from './adapters/index.js';
import type { OpenedUnitOfWork } from './unit-of-work-suite.js';

const LOCK = 'server_version_num';
const COMPLETE = "(SELECT 'stored' FROM stored";
const MISMATCHED = { code: 'idempotency_store_reply_mismatched' };

const server = usePostgres();
let url: string;
let relay: ShiftingRelay;

beforeEach(async () => {
  url = await server.newDatabase();
  await migrate({ url });
  const pool = openPostgresPool(url);
  await pool.query('CREATE TABLE effects (id text PRIMARY KEY)');
  await pool.end();
  relay = closeAfterTest(await ShiftingRelay.start(server.port));
});

describe.each(adapterNames)('When replies get out of step in a transaction, %s', (name) => {
  let opened: OpenedUnitOfWork<never>;
  let attempt: TransactionalAttempt<never>;
  beforeEach(async () => {
    // One connection, so that the next transaction would get the same one.
    opened = await adapterOf(name).open(throughPort(url, relay.port), 1);
    attempt = new TransactionalAttempt(ownStore(url), opened.unitOfWork);
  });
  afterEach(() => opened.close());

  const effects = async () => {
    const { rows } = await userPool(url).query<{ id: string }>('SELECT id FROM effects');
    return rows.map(({ id }) => id);
  };

  async function expectTheNextOneToWork(): Promise<void> {
    const lease = await attempt.begin();
    const held = await attempt.open(lease);
    await opened.insert(held.transaction.handle as never, 'next');
    expect(await attempt.commit(held, lease)).toEqual({ kind: 'committed' });
    expect(await effects()).toEqual(['next']);
  }

  it('the lock fails, and the connection is closed', async () => {
    const lease = await attempt.begin();
    relay.shiftAt(LOCK);
    await expect(attempt.open(lease)).rejects.toMatchObject(MISMATCHED);
    await expectTheNextOneToWork();
  });

  it('the save fails, nothing is committed, and the connection is closed', async () => {
    const lease = await attempt.begin();
    const held = await attempt.open(lease);
    await opened.insert(held.transaction.handle as never, 'one');
    relay.shiftAt(COMPLETE);
    expect(await attempt.commit(held, lease)).toMatchObject({ kind: 'failed', error: MISMATCHED });
    expect(await effects()).toEqual([]);
    await expectTheNextOneToWork();
  });

  it('COMMIT fails', async () => {
    const lease = await attempt.begin();
    const held = await attempt.open(lease);
    await opened.insert(held.transaction.handle as never, 'one');
    const reportsCommands = ['pg', 'drizzle'].includes(name);
    // The others query a nonce before it. Drizzle wraps the error.
    relay.shiftAt(reportsCommands ? 'COMMIT' : 'SELECT $1::text AS reply');
    const error = name === 'drizzle' ? { cause: MISMATCHED } : MISMATCHED;
    const end = await attempt.commit(held, lease);
    expect(end).toMatchObject({ kind: 'failed', error });
    expect(end.kind === 'failed' && opened.unitOfWork.isReplyMismatch(end.error)).toBe(true);
    await opened.unitOfWork.run({ isolation: undefined, timeoutMs: 10_000 }, async ({ handle }) =>
      opened.insert(handle, 'next'),
    );
    expect(await effects()).toEqual(reportsCommands ? ['one', 'next'] : ['next']);
  });
});

describe('A commit succeeds with', () => {
  async function expectToCommit<Handle>(unitOfWork: UnitOfWork<Handle>): Promise<void> {
    const attempt = new TransactionalAttempt(ownStore(url), unitOfWork);
    const lease = await attempt.begin();
    const held = await attempt.open(lease);
    expect(await attempt.commit(held, lease)).toEqual({ kind: 'committed' });
  }

  it('a binary pool', () => expectToCommit(pgUnitOfWork(userPool(url, { binary: true }))));

  it('a pool whose parser leaves text as bytes', async () => {
    const types = { getTypeParser: () => (sent: unknown) => sent };
    await expectToCommit(pgUnitOfWork(userPool(url, { binary: true, types })));
  });

  it('Kysely with plugins that rename columns and read JSON', async () => {
    const db = new Kysely({
      dialect: new PostgresDialect({ pool: userPool(url) }),
      plugins: [new CamelCasePlugin({ upperCase: true }), new ParseJSONResultsPlugin()],
    });
    await expectToCommit(kyselyUnitOfWork(db));
  });

  it.each<[string, (rows: readonly object[]) => unknown]>([
    ['renames columns', (rows) => ({ rows: rows.map(inCapitals) })],
    ['returns only the rows', (rows) => rows.map(inCapitals)],
  ])('a postProcessResponse of Knex that %s', async (_, make) => {
    const db = openKnex({
      client: 'pg',
      connection: url,
      postProcessResponse: (result: { rows?: readonly object[] }) =>
        result.rows === undefined ? result : make(result.rows),
      wrapIdentifier: (name, wrap) => wrap(name.toUpperCase()),
    });
    closeAfterTest({ stop: () => db.destroy() });
    await expectToCommit(knexUnitOfWork(db));
  });
});

function inCapitals(row: object): object {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name.toUpperCase(), value as unknown]),
  );
}
