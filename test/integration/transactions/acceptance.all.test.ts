import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createPool, type RowDataPacket } from 'mysql2/promise';
import { mysqlStore } from 'nestjs-idempotency/mysql';
import { migrate } from 'nestjs-idempotency/postgres';
import { findMariaDb } from '../../support/mysql/installations.js';
import { useMysql } from '../../support/mysql/use-mysql.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { postgresServers } from '../../support/postgres/postgres-servers.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { until } from '../../support/waiting/until.js';
import { WorkerProcess } from './acceptance/worker-process.js';
import { adapterNames } from './adapters/index.js';
import { mysqlAdapterNames } from './mysql/adapters.js';

const START_MS = 120_000;
/** Longer than the lease of the dead process, on a machine that is busy with other tests. */
const RETRIES_MS = 60_000;

/** A database with the tables of the records and of `effects (id PRIMARY KEY)`. */
interface Database {
  readonly url: string;
  /** How often the row is there. */
  rows(id: string): Promise<number>;
  end(): Promise<unknown>;
}

describe('a transactional route on PostgreSQL', () => {
  const server = usePostgres(postgresServers[0]);
  describeRoute(adapterNames, async () => {
    const url = await server.newDatabase();
    await migrate({ url });
    const observer = openPostgresPool(url);
    await observer.query('CREATE TABLE effects (id text PRIMARY KEY)');
    const rows = async (id: string) => {
      const { rowCount } = await observer.query('SELECT 1 FROM effects WHERE id = $1', [id]);
      return rowCount ?? 0;
    };
    return { url, rows, end: () => observer.end() };
  });
});

const given = findMariaDb() === undefined ? describe.skip : describe;

given('a transactional route on MySQL', () => {
  const server = useMysql();
  describeRoute(mysqlAdapterNames, async () => {
    const url = await server.newDatabase();
    const store = mysqlStore({ url });
    await store.migrate();
    await store.close();
    const observer = createPool(url);
    await observer.query('CREATE TABLE effects (id varchar(64) PRIMARY KEY) ENGINE = InnoDB');
    const rows = async (id: string) => {
      const text = 'SELECT 1 FROM effects WHERE id = ?';
      return (await observer.query<RowDataPacket[]>(text, [id]))[0].length;
    };
    return { url, rows, end: () => observer.end() };
  });
});

function describeRoute(names: readonly string[], newDatabase: () => Promise<Database>): void {
  let database: Database;
  let worker: WorkerProcess;
  let mortal: WorkerProcess;

  beforeAll(async () => {
    database = await newDatabase();
    const { url } = database;
    [worker, mortal] = await Promise.all([WorkerProcess.start(url), WorkerProcess.start(url)]);
  }, START_MS);
  afterAll(async () => {
    await Promise.all([worker, mortal].map((process) => process.kill()));
    await database.end();
  });

  const rows = (id: string) => database.rows(id);

  it.each(names)(
    'whose handler fails after it has written through %s has written nothing, and a retry runs it',
    async (adapter) => {
      const id = `failure-of-${adapter}`;
      expect(await worker.post(adapter, id, 'fail')).toMatchObject({ status: 500 });
      expect(await rows(id)).toBe(0);

      const body = { id, attempt: 2, isTakeover: false };
      expect(await worker.post(adapter, id)).toEqual({ status: 201, isReplay: false, body });
      expect(await rows(id)).toBe(1);

      expect(await worker.post(adapter, id)).toEqual({ status: 201, isReplay: true, body });
      expect(await rows(id)).toBe(1);
    },
  );

  it(
    'whose process is killed between write and commit has written nothing, and a retry elsewhere runs it',
    async () => {
      const ids = names.map((adapter) => [adapter, `death-of-${adapter}`] as const);
      const withoutResponse = ids.map(([adapter, id]) => mortal.post(adapter, id, 'hang'));
      const ends = Promise.allSettled(withoutResponse);
      await until(() => mortal.written.size === ids.length, RETRIES_MS);
      // All attempts are still in progress.
      for (const [adapter, id] of ids) {
        expect(await worker.post(adapter, id)).toMatchObject({ status: 409 });
      }
      await mortal.kill();
      expect((await ends).map(({ status }) => status)).toEqual(ids.map(() => 'rejected'));
      for (const [, id] of ids) expect(await rows(id)).toBe(0);

      for (const [adapter, id] of ids) {
        let reply = await worker.post(adapter, id);
        await until(async () => {
          if (reply.status === 409) reply = await worker.post(adapter, id);
          return reply.status !== 409;
        }, RETRIES_MS);
        const body = { id, attempt: 2, isTakeover: true };
        expect(reply).toEqual({ status: 201, isReplay: false, body });
        expect(await worker.post(adapter, id)).toEqual({ status: 201, isReplay: true, body });
        expect(await rows(id)).toBe(1);
      }
    },
    START_MS,
  );
}
