import { beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import { migrate, postgresStore, type OwnPoolOptions } from 'nestjs-idempotency/postgres';
import type { Pool } from 'pg';
import { afterTest } from '../../support/jest/after-test.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { TcpRelay } from '../../support/servers/tcp-relay.js';
import { documentedSql } from '../../support/docs/documented-blocks.js';
import { runStatus, sqlOf } from '../../support/internals/cli.js';
import { newProbeKey, nodeClock, notePlace } from '../../support/internals/core.js';
import { acquire, beginCommand, completeCommand, leaseOf } from '../../support/stores/commands.js';
import { diagnose } from '../cli/support/diagnosis.js';
import { userPool } from '../postgres/support/fixture.js';
import { TransactionalAttempt } from '../postgres/support/transactional-attempt.js';
import { differences, histories, type Entry } from './histories.js';

const server = usePostgres();
let url: string;
let pool: Pool;
beforeAll(async () => {
  url = await server.newDatabase();
  expect(await storeOn(url).migrate()).toEqual([1, 2, 3, 1]);
});
beforeEach(async () => {
  pool = userPool(url);
  await pool.query('TRUNCATE idempotency_records, idempotency_journal');
});

const KEYS = isTestAll ? 2_000 : 150;
const JOURNAL = { service: "shop's\\eu", version: '1.4.2' };

function storeOn(address: string, options: OwnPoolOptions = {}) {
  const store = postgresStore({ url: address, journal: JOURNAL, ...options });
  afterTest(() => store.close());
  return store;
}

interface Row extends Entry {
  readonly at: Date;
  readonly service: string;
  readonly version: string;
}

async function entriesIn(database: Pool): Promise<Row[]> {
  const { rows } = await database.query<Row>(
    `SELECT translate(rtrim(encode(record_key, 'base64'), '='), '+/', '-_') AS key, kind, state, fence::float8 AS fence,
       attempt, fingerprint, coalesce(note, '') AS note, service, version, at
     FROM idempotency_journal ORDER BY record_key, fence, at`,
  );
  return rows;
}

/** A relay that breaks the connection in place of every nth piece of a reply. */
async function losingRelay(nth: number) {
  const relay = await TcpRelay.start(Number(new URL(url).port));
  const lost = { replies: 0, pieces: 0 };
  relay.report((link) => {
    link.client.on('data', (piece) => link.server.write(piece));
    link.server.on('data', (piece) => {
      lost.pieces += 1;
      if (lost.pieces % nth !== 0) link.client.write(piece);
      else {
        lost.replies += 1;
        link.breakBoth();
      }
    });
  });
  afterTest(() => relay.stop());
  return { url: relay.through(url), lost };
}

describe('The journal in a table of PostgreSQL', () => {
  it('has exactly one entry for each change, though commands are sent twice and replies are lost', async () => {
    const relay = await losingRelay(211);
    const { rows } = await pool.query<{ now: Date }>('SELECT clock_timestamp() AS now');
    const store = storeOn(relay.url);
    await store.open();
    const expected = await histories(store, KEYS, 1);
    const found = await entriesIn(pool);
    expect(relay.lost.replies).toBeGreaterThan(2);
    expect(differences(found, expected)).toEqual({ extra: [], missing: [] });
    expect(found).toHaveLength(expected.length);
    // Nothing is ever restored: no record is gone.
    expect(new Set(expected.map(({ kind }) => kind)).size).toBe(6);
    expect(new Set(found.map(({ service, version }) => `${service} ${version}`))).toEqual(
      new Set([`${JOURNAL.service} ${JOURNAL.version}`]),
    );
    expect(found.every(({ at }) => at >= rows[0]!.now)).toBe(true);
    expect(store.missedEntries).toBeUndefined();
  }, 600_000);

  it('has no entry of an outcome that was rolled back, and one of one that was committed', async () => {
    const store = storeOn(url);
    const attempt = new TransactionalAttempt(store, pgUnitOfWork(pool));
    const kinds = async () => (await entriesIn(pool)).map(({ kind }) => kind);
    const lease = await attempt.begin();
    const stored: string[] = [];
    const rollingBack = (await attempt.open(lease)).commit(async (transaction) => {
      stored.push(await attempt.complete(transaction, lease));
      throw new Error('rolled back');
    });
    await rollingBack.catch(() => undefined);
    expect(stored).toEqual(['stored']);
    expect(await kinds()).toEqual(['acquired']);
    await attempt.commit(await attempt.open(lease), lease);
    expect(await kinds()).toEqual(['acquired', 'completed']);
  });

  it('has no entry of a probe, nor of the name of a service', async () => {
    const store = storeOn(url);
    for (const recordKey of [newProbeKey(nodeClock), notePlace(0)]) {
      const begin = beginCommand({ recordKey });
      const reply = await store.begin(begin);
      await store.complete(leaseOf(begin, 'fence' in reply ? reply.fence : 0), completeCommand());
    }
    expect(await entriesIn(pool)).toEqual([]);
    await acquire(store);
    expect(await entriesIn(pool)).toHaveLength(1);
  });

  it('loses what is older than its retention, in batches, and nothing else', async () => {
    const store = storeOn(url, { journal: { ...JOURNAL, retention: '1h' }, deleteExpired: false });
    for (let entry = 0; entry < 7; entry += 1) await acquire(store);
    const old = await pool.query(
      `UPDATE idempotency_journal SET at = at - interval '1 hour'
       WHERE fence <= (SELECT fence FROM idempotency_journal ORDER BY fence OFFSET 4 LIMIT 1)`,
    );
    expect(old.rowCount).toBe(5);
    await store.deleteExpired({ batchSize: 2, pause: '0ms' });
    const left = await pool.query(
      "SELECT count(*)::int AS count, bool_and(at > now() - interval '1 hour') AS new FROM idempotency_journal",
    );
    expect(left.rows).toEqual([{ count: 2, new: true }]);
  });

  it('is created by the command line, and read by the SELECT of the guide', async () => {
    const other = await server.newDatabase();
    const reader = userPool(other);
    await reader.query(await sqlOf(['--journal']));
    const printed: string[] = [];
    const print = (text: string) => void printed.push(text);
    expect(await runStatus(['--journal', '--url', other], print)).toBe(0);
    expect(printed.join('')).toContain('run      1 journal');
    const store = storeOn(other);
    expect(await store.migrate()).toEqual([1, 2, 3]);
    const lease = await acquire(store);
    await acquire(store);
    await store.complete(lease, completeCommand());
    const select = documentedSql('FROM idempotency_journal', 'docs/guides/audit.md');
    const own = select.replace(/'[-\w]{43}'/, `'${lease.recordKey}'`);
    expect(own).not.toBe(select);
    const { rows } = await reader.query(own);
    expect(rows).toMatchObject([
      { kind: 'acquired', state: 'in_progress', version: JOURNAL.version },
      { kind: 'completed', state: 'completed', service: JOURNAL.service },
    ]);
  });

  it('is seen by the doctor, with the option and without it', async () => {
    const store = storeOn(url);
    await histories(store, 5, 2);
    await pool.query('ANALYZE idempotency_journal');
    const { rows } = await pool.query<{ at: Date }>(
      'SELECT min(at) AS at FROM idempotency_journal',
    );
    const oldest = `, the oldest of ${rows[0]!.at.toISOString().slice(0, 19)}Z.`;
    const findings: string[] = [];
    for await (const { check, message } of store.diagnose()) {
      if (check === 'journal') findings.push(message);
    }
    const { findings: found } = await diagnose('--postgres', url);
    findings.push(...found.filter(({ check }) => check === 'journal').map((one) => one.message));
    expect(findings).toHaveLength(2);
    for (const each of findings) {
      expect(each).toMatch(/^The table "public"."idempotency_journal" has about \d+ entries, /);
      expect(each).toContain(oldest);
    }
    const other = await server.newDatabase();
    await migrate({ url: other });
    const without = await diagnose('--postgres', other);
    expect(without.findings.map(({ check }) => check)).not.toContain('journal');
  });

  describe('The start stops, with the remedy,', () => {
    const message = async (starting: Promise<unknown>) => {
      const error: unknown = await starting.catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'idempotency_store_misconfigured' });
      return (error as Error).message;
    };

    it('without the table', async () => {
      const store = storeOn(url, { journal: { ...JOURNAL, table: 'other_journal' } });
      expect(await message(store.open())).toBe(
        'Migrations are missing for "public"."other_journal": 1 (journal). Run them: await store.migrate(), or npx nestjs-idempotency migrate --journal --schema public --table other_journal',
      );
    });

    it('of which only the migrations are left, as after a drop for its space', async () => {
      const journal = { ...JOURNAL, table: 'dropped_journal' };
      const store = storeOn(url, { journal });
      await store.migrate();
      await pool.query('DROP TABLE dropped_journal');
      expect(await message(store.open())).toBe(
        'The table "public"."dropped_journal" is not there, though its migrations were run: it was dropped or renamed. Restore it, or drop "public"."dropped_journal_migrations", too, and run the migrations: await store.migrate(), or npx nestjs-idempotency migrate --journal --schema public --table dropped_journal',
      );
      await pool.query('DROP TABLE dropped_journal_migrations');
      expect(await store.migrate()).toEqual([1]);
      await store.open();
    });

    it('of an application with another name', async () => {
      const observer = {
        service: 'other',
        replyMismatched: () => undefined,
        warned: () => undefined,
      };
      const error: unknown = await storeOn(url)
        .open(observer)
        .catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'idempotency_options_invalid' });
      expect((error as Error).message).toMatch(/^postgresStore: .* is "other": the journal would/);
    });

    it('for a user who may not insert; without deletion, he needs nothing else', async () => {
      const user = Object.assign(new URL(url), { username: 'journalist', password: 'pw' }).href;
      await pool.query(`DROP ROLE IF EXISTS journalist`);
      await pool.query(`CREATE ROLE journalist LOGIN PASSWORD 'pw'`);
      await pool.query(
        `GRANT SELECT, INSERT, UPDATE ON idempotency_records TO journalist;
         GRANT SELECT ON idempotency_records_migrations, idempotency_journal_migrations TO journalist`,
      );
      afterTest(() => pool.query('DROP OWNED BY journalist; DROP ROLE journalist'));
      const store = storeOn(user, { deleteExpired: false });
      expect(await message(store.open())).toBe(
        'The user may not INSERT on "public"."idempotency_journal". Grant it: GRANT INSERT ON "public"."idempotency_journal" TO …',
      );
      await pool.query('GRANT INSERT ON idempotency_journal TO journalist');
      await store.open();
      expect(await histories(store, 20, 2)).toHaveLength((await entriesIn(pool)).length);
      const deleting = storeOn(user);
      expect(await message(deleting.open())).toMatch(/may not DELETE on .*idempotency_records/);
    });
  });

  it.each([
    [{ service: 'shop' }, /"journal.version" must be a string of 1 to 120 printable/],
    [{ ...JOURNAL, service: 'two words' }, /"journal.service" must be/],
    [{ ...JOURNAL, retention: '1s' }, /"journal.retention" must be a duration from '1h'/],
    [{ ...JOURNAL, maxLength: 5_000 }, /"journal.maxLength" is not an option of postgresStore/],
    [{ ...JOURNAL, table: 'idempotency_records' }, /"table" and "journal.table" name one table/],
  ])('rejects the options %j', (journal, expected) => {
    const create = () => postgresStore({ url, journal } as OwnPoolOptions);
    expect(create).toThrow(expected);
    expect(create).toThrow(expect.objectContaining({ code: 'idempotency_options_invalid' }));
  });
});
