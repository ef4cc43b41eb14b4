import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
} from 'nestjs-idempotency';
import type { RecordKey } from 'nestjs-idempotency/store';
import { describeStoreConformance } from 'nestjs-idempotency/testing/store';
import type { Pool } from 'pg';
import { projectRoot } from '../../test/support/project-root.js';
import { openPostgresPool } from '../../test/support/postgres/postgres-pool.js';
import { usePostgres } from '../../test/support/postgres/use-postgres.js';
import { useServer } from '../../test/support/servers/use-server.js';
import {
  acquire,
  beginCommand,
  completeCommand,
  extendCommand,
  leaseOf,
} from '../../test/support/stores/commands.js';
import { DocumentStore } from './document-store.js';

const START_MS = 1_900_000_000_000;
const TABLE = readFileSync(join(projectRoot, 'examples/stores/documents.sql'), 'utf8');
/** Before the server's own: the kit then drives the clock of a store that knows of none but the server's. */
const CLOCK = `
  CREATE SCHEMA driven;
  CREATE TABLE driven.clock AS SELECT now() AS at;
  CREATE FUNCTION driven.statement_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT at FROM driven.clock';`;

const server = usePostgres();

async function documents(): Promise<Pool> {
  const options = '-c search_path=driven,public,pg_catalog';
  const pool = openPostgresPool(await server.newDatabase(), { options });
  await pool.query(TABLE);
  await pool.query(CLOCK);
  return pool;
}

const pool = useServer(documents, (opened) => opened.end());

// #region kit
describeStoreConformance(
  { describe, it },
  {
    name: 'DocumentStore',
    create: async () => {
      let now = START_MS;
      const set = async (ms: number) => {
        now = ms;
        const at = (now + 0.517) / 1000;
        await pool.query('UPDATE driven.clock SET at = to_timestamp($1)', [at]);
      };
      await set(now);
      const store = new DocumentStore(pool);
      return { store, clock: { now: () => now, step: (ms: number) => set(now + ms) } };
    },
  },
);
// #endregion

describe('ConditionalStore', () => {
  const store = () => new DocumentStore(pool);
  const timeoutMs = 200;

  beforeAll(async () => {
    await pool.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'refused'; END $$`);
    await pool.query(`CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RETURN NULL; END $$`);
  });
  afterEach(() => pool.query('DROP TRIGGER IF EXISTS planted ON documents'));

  const plant = (what: 'refuse' | 'skip') =>
    pool.query(
      `CREATE TRIGGER planted BEFORE INSERT OR UPDATE ON documents FOR EACH ROW EXECUTE FUNCTION ${what}()`,
    );

  /** Runs `work` while another transaction holds the table. */
  async function locked(mode: 'SHARE' | 'ACCESS EXCLUSIVE', work: () => Promise<void>) {
    const other = await pool.connect();
    await other.query(`BEGIN; LOCK TABLE documents IN ${mode} MODE`);
    await work();
    await other.query('ROLLBACK');
    other.release();
  }

  it('says of an error while it reads that nothing was written', async () => {
    const empty = openPostgresPool(await server.newDatabase());
    const failed = new DocumentStore(empty).begin(beginCommand());
    await expect(failed).rejects.toThrow(StoreUnavailableError);
    await expect(failed).rejects.toMatchObject({
      message: 'The database replied with an error: 42P01.',
      cause: { code: '42P01' },
    });
    await empty.end();
  });

  it('says of an error while it writes that the record may have been written', async () => {
    const lease = await acquire(store());
    await plant('refuse');
    const failed = store().complete(lease, completeCommand());
    await expect(failed).rejects.toThrow(StoreOutcomeUnknownError);
    await expect(failed).rejects.toMatchObject({ cause: { message: 'refused' } });
  });

  it('gives up a read that gets no reply in time', async () => {
    await locked('ACCESS EXCLUSIVE', async () => {
      const failed = store().begin(beginCommand({ timeoutMs }));
      await expect(failed).rejects.toThrow(StoreUnavailableError);
    });
  });

  it('does not know what became of a write that gets no reply in time', async () => {
    const command = beginCommand({ timeoutMs });
    await locked('SHARE', async () => {
      await expect(store().begin(command)).rejects.toThrow(StoreOutcomeUnknownError);
    });
    const again = await store().begin(command);
    expect(['acquired', 'owned']).toContain(again.kind);
  });

  it('gives up a record that changes before each write, at the end of the time', async () => {
    await plant('skip');
    const failed = store().begin(beginCommand({ timeoutMs }));
    await expect(failed).rejects.toThrow(StoreUnavailableError);
    await expect(failed).rejects.toThrow('Other commands kept changing the record.');
  });

  it('decides again by the record that was written before its own', async () => {
    const begin = beginCommand();
    class Late extends DocumentStore {
      raced = false;
      override async saveIf(...write: Parameters<DocumentStore['saveIf']>) {
        if (!this.raced) {
          this.raced = true;
          await store().begin({ ...begin, token: beginCommand().token });
        }
        return super.saveIf(...write);
      }
    }
    expect(await new Late(pool).begin(begin)).toMatchObject({ kind: 'in_progress' });
  });

  it('passes on the errors of the library that a store throws itself', async () => {
    const error = new StoreConfigurationError('no such table');
    class Misconfigured extends DocumentStore {
      override load(_recordKey: RecordKey) {
        return Promise.reject(error);
      }
    }
    await expect(new Misconfigured(pool).begin(beginCommand())).rejects.toBe(error);
  });

  it('extends and completes by the time of the database', async () => {
    const begin = beginCommand();
    const begun = await store().begin(begin);
    expect(begun).toMatchObject({ kind: 'acquired' });
    const lease = leaseOf(begin, begun.kind === 'acquired' ? begun.fence : 0);
    expect(await store().extend(lease, extendCommand())).toEqual({ kind: 'ok' });
    expect(await store().complete(lease, completeCommand())).toEqual({ kind: 'ok' });
    expect(await store().complete(lease, completeCommand())).toEqual({ kind: 'already' });
  });
});
