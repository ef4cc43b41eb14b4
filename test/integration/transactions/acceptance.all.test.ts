import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Pool } from 'pg';
import { migrate } from 'nestjs-idempotency/postgres';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { postgresServers } from '../../support/postgres/postgres-servers.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { until } from '../../support/waiting/until.js';
import { WorkerProcess } from './acceptance/worker-process.js';
import { adapterNames } from './adapters/index.js';

const START_MS = 120_000;
/** Longer than the lease of the dead process, on a machine that is busy with other tests. */
const RETRIES_MS = 60_000;

describe('a transactional route', () => {
  const server = usePostgres(postgresServers[0]);
  let observer: Pool;
  let worker: WorkerProcess;
  let mortal: WorkerProcess;

  beforeAll(async () => {
    const url = await server.newDatabase();
    await migrate({ url });
    observer = openPostgresPool(url);
    await observer.query('CREATE TABLE effects (id text PRIMARY KEY)');
    [worker, mortal] = await Promise.all([WorkerProcess.start(url), WorkerProcess.start(url)]);
  }, START_MS);
  afterAll(async () => {
    await Promise.all([worker, mortal].map((process) => process.kill()));
    await observer.end();
  });

  async function rows(id: string): Promise<number> {
    const { rowCount } = await observer.query('SELECT 1 FROM effects WHERE id = $1', [id]);
    return rowCount ?? 0;
  }

  it.each(adapterNames)(
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
      const ids = adapterNames.map((adapter) => [adapter, `death-of-${adapter}`] as const);
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
});
