import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Controller, HttpException, Post, StreamableFile } from '@nestjs/common';
import {
  type IdempotencyEvent,
  IdempotencyEvents,
  type IdempotencyModuleOptions,
  Idempotent,
  requireIdempotencyTransaction,
} from 'nestjs-idempotency';
import { postgresBlobs, type PostgresBlobs } from 'nestjs-idempotency/postgres';
import {
  PostgresUnitOfWork,
  type SqlTransaction,
  type TransactionOptions,
} from 'nestjs-idempotency/transactions';
import type { BlobStore } from 'nestjs-idempotency/store';
import { platforms } from '../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../support/http/expectations.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp } from '../../support/http/start-app.js';
import { afterTest } from '../../support/jest/after-test.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { until } from '../../support/waiting/until.js';
import { useBank } from './support/bank.js';
import type { Transaction } from './support/transfers.controller.js';

const LARGE = 300_000;
const bank = useBank();
const server = usePostgres();
let blobs: PostgresBlobs;

beforeAll(async () => {
  blobs = postgresBlobs({ url: bank.url });
  await blobs.migrate();
  await blobs.close();
});
beforeEach(async () => {
  await bank.observer.query('TRUNCATE idempotency_blobs; TRUNCATE transfers');
});

const storedBlobs = async () => {
  const { rows } = await bank.observer.query<{ name: string }>(
    'SELECT DISTINCT name FROM idempotency_blobs',
  );
  return rows.map(({ name }) => name);
};

@Controller()
class Statements {
  /** Writes in its transaction, and returns what only a blob can have. */
  @Post('statement')
  @Idempotent({ transaction: true })
  async statement(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    const transaction = requireIdempotencyTransaction<Transaction>();
    await transaction.query('INSERT INTO transfers VALUES ($1, $2)', [scenario.key, execution]);
    const text = randomBytes(LARGE / 2).toString('hex');
    if (scenario.planned(execution) === 'decline') throw new HttpException({ text }, 402);
    return { execution, text };
  }

  /** The same, by a stream that is larger than what is held in memory. */
  @Post('streamed')
  @Idempotent({ transaction: true, outcome: { maxBytes: 100_000 } })
  async streamed(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    const transaction = requireIdempotencyTransaction<Transaction>();
    await transaction.query('INSERT INTO transfers VALUES ($1, $2)', [scenario.key, execution]);
    const chunks = Array.from({ length: 10 }, () => randomBytes(LARGE / 10));
    return new StreamableFile(Readable.from(chunks, { objectMode: false }));
  }
}

/** Runs before COMMIT, in its transaction. */
class WatchedUnitOfWork extends PostgresUnitOfWork<Transaction> {
  beforeCommit: () => unknown = () => undefined;

  run<Result>(
    options: TransactionOptions,
    work: (transaction: SqlTransaction<Transaction>) => Promise<Result>,
  ): Promise<Result> {
    return bank.unitOfWork.run(options, async (transaction) => {
      const worked = await work(transaction);
      await this.beforeCommit();
      return worked;
    });
  }
}

interface Started {
  readonly scenario: () => Scenario;
  readonly events: readonly IdempotencyEvent[];
  readonly unitOfWork: WatchedUnitOfWork;
}

async function start(
  store: BlobStore,
  options: Partial<IdempotencyModuleOptions> = {},
  platform: (typeof platforms)[number] = 'express',
): Promise<Started> {
  const unitOfWork = new WatchedUnitOfWork();
  const app = await startApp({
    platform,
    controllers: [Statements],
    store: bank.newStore(),
    options: {
      unitOfWork,
      blobs: store,
      ...options,
      outcome: {
        offload: { aboveBytes: 10_000, putTimeout: '10s' },
        ...(options.outcome as object),
      },
      storeErrors: { commandTimeout: 5_000, saveTimeout: 5_000, ...options.storeErrors },
    },
  });
  afterTest(() => app.close());
  const events: IdempotencyEvent[] = [];
  app.nest
    .get(IdempotencyEvents, { strict: false })
    .subscribe((event) => void events.push(event), { replacesLog: true });
  return { scenario: () => app.scenario(), events, unitOfWork };
}

const here = () => postgresBlobs({ url: bank.url });
const rolledBack = (events: readonly IdempotencyEvent[]) =>
  events.filter(({ type }) => type === 'rolled_back');

describe.each(platforms)('On %s, a large response of a transaction', (platform) => {
  it.each(['/statement', '/streamed'])(
    'of %s is in the blob store when record and writes are, and not before',
    async (path) => {
      const { scenario: next, unitOfWork } = await start(here(), {}, platform);
      const scenario = next();
      let before: unknown;
      unitOfWork.beforeCommit = async () => {
        before = [await storedBlobs(), await bank.committed(scenario)];
      };
      const first = await scenario.post(path);
      expect(first.status).toBe(201);
      expect(before).toEqual([[], []]);
      const names = await storedBlobs();
      expect(names).toEqual([expect.stringMatching(/^d1\//)]);
      expect(await bank.committed(scenario)).toEqual([1]);
      expectReplay(await scenario.post(path), first);
      expect(scenario.executions).toBe(1);
      expect(await storedBlobs()).toEqual(names);
    },
  );
});

describe('A large response of a transaction that is rolled back', () => {
  it.each(['/statement', '/streamed'])(
    'leaves of %s neither blob nor record nor writes, and a retry runs',
    async (path) => {
      const { scenario: next, unitOfWork, events } = await start(here());
      const scenario = next();
      unitOfWork.beforeCommit = () => {
        throw new Error('the commit failed');
      };
      expectProblem(await scenario.post(path), 'store-unavailable');
      expect([await storedBlobs(), await bank.committed(scenario)]).toEqual([[], []]);
      expect(rolledBack(events)).toHaveLength(1);
      unitOfWork.beforeCommit = () => undefined;
      const again = await scenario.post(path);
      expect(again.status).toBe(201);
      expect(scenario.executions).toBe(2);
      expectReplay(await scenario.post(path), again);
      expect(await bank.committed(scenario)).toEqual([2]);
      expect(await storedBlobs()).toHaveLength(1);
    },
  );

  it.each(platforms)(
    'on %s cuts the connection where it is sent while it is stored, and a retry runs',
    async (platform) => {
      const outcome = { offload: { aboveBytes: 10_000, delivery: 'hold-last' } } as const;
      const { scenario: next, unitOfWork, events } = await start(here(), { outcome }, platform);
      const scenario = next();
      unitOfWork.beforeCommit = () => {
        throw new Error('the commit failed');
      };
      await expect(scenario.post('/streamed')).rejects.toThrow(
        /^the connection ended after .* 201 /,
      );
      await until(() => events.some(({ type }) => type === 'ended'));
      expect([await storedBlobs(), await bank.committed(scenario)]).toEqual([[], []]);
      expect(rolledBack(events)).toHaveLength(1);
      unitOfWork.beforeCommit = () => undefined;
      const again = await scenario.post('/streamed');
      expect(again.status).toBe(201);
      expect(again.header('content-length')).toBeUndefined();
      expect(await bank.committed(scenario)).toEqual([2]);
      expect(await storedBlobs()).toHaveLength(1);
      const replay = await scenario.post('/streamed');
      expect([replay.status, replay.replayed]).toEqual([201, true]);
      expect(replay.body.equals(again.body)).toBe(true);
      expect(scenario.executions).toBe(2);
    },
  );

  it('as its failure is kept: the blob of the failure is, the writes are not', async () => {
    const { scenario: next } = await start(here());
    const scenario = next();
    scenario.plan = ['decline'];
    const first = await scenario.post('/statement');
    expect(first.status).toBe(402);
    expect(await bank.committed(scenario)).toEqual([]);
    expect(await storedBlobs()).toHaveLength(1);
    expectReplay(await scenario.post('/statement'), first);
  });
});

it('A blob may take longer than storeErrors.saveTimeout, which is for the commit', async () => {
  const { scenario: next } = await start(here(), { storeErrors: { saveTimeout: '300ms' } });
  const scenario = next();
  await bank.observer.query(`
    CREATE FUNCTION take_your_time() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_sleep(0.3); RETURN NEW; END $$;
    CREATE TRIGGER slow BEFORE INSERT ON idempotency_blobs
      FOR EACH ROW WHEN (NEW.name LIKE 'upload/%') EXECUTE FUNCTION take_your_time()`);
  afterTest(() => bank.observer.query('DROP FUNCTION take_your_time CASCADE'));
  const first = await scenario.post('/statement');
  expect(first.status).toBe(201);
  expectReplay(await scenario.post('/statement'), first);
});

describe('A blob that cannot be put in the transaction', () => {
  it.each(['/statement', '/streamed'])(
    'because the database refuses that of %s: all is rolled back, and a retry runs',
    async (path) => {
      const { scenario: next, events } = await start(here());
      const scenario = next();
      await bank.observer.query(
        'ALTER TABLE idempotency_blobs ADD CONSTRAINT full_disk CHECK (part < 1) NOT VALID',
      );
      try {
        expectProblem(await scenario.post(path), 'store-unavailable');
      } finally {
        await bank.observer.query('ALTER TABLE idempotency_blobs DROP CONSTRAINT full_disk');
      }
      expect([await storedBlobs(), await bank.committed(scenario)]).toEqual([[], []]);
      expect(rolledBack(events)).toMatchObject([{ errorType: 'idempotency_blob_unavailable' }]);
      expect(events.map(({ type }) => type)).not.toContain('pack_failed');
      expect((await scenario.post(path)).status).toBe(201);
      expect(await bank.committed(scenario)).toEqual([2]);
    },
  );

  it('within offload.putTimeout: all is rolled back, and a retry runs', async () => {
    const outcome = { offload: { aboveBytes: 10_000, putTimeout: '200ms' } } as const;
    const storeErrors = { saveTimeout: '500ms' } as const;
    const { scenario: next, events } = await start(here(), { outcome, storeErrors });
    const scenario = next();
    await bank.observer.query('BEGIN; LOCK TABLE idempotency_blobs IN SHARE MODE');
    const response = scenario.post('/statement');
    // What waits for the lock is cut with its connection: the observer keeps it until the response is there.
    expectProblem(await response, 'store-unavailable');
    await bank.observer.query('COMMIT');
    expect([await storedBlobs(), await bank.committed(scenario)]).toEqual([[], []]);
    await until(() => events.some(({ type }) => type === 'ended'));
    const again = await scenario.post('/statement');
    expect(again).toMatchObject({ status: 201, json: { execution: 2 } });
    expect(await bank.committed(scenario)).toEqual([2]);
  });

  it.each(['without a table', 'with a table of its own'])(
    'because it belongs to another database, %s: nothing is committed, and the log says so',
    async (which) => {
      const url = await server.newDatabase();
      const elsewhere = postgresBlobs({ url });
      await elsewhere.migrate();
      if (which === 'without a table') {
        await bank.observer.query('ALTER TABLE idempotency_blobs_migrations RENAME TO away');
        afterTest(() =>
          bank.observer.query('ALTER TABLE away RENAME TO idempotency_blobs_migrations'),
        );
      }
      const { scenario: next, events } = await start(elsewhere);
      const scenario = next();
      expectProblem(await scenario.post('/statement'), 'store-unavailable');
      expect([await storedBlobs(), await bank.committed(scenario)]).toEqual([[], []]);
      expect(rolledBack(events)).toMatchObject([
        {
          errorType: 'idempotency_store_misconfigured',
          error: { message: expect.stringContaining('use different databases') },
        },
      ]);
    },
  );
});

it('A blob store without transactions takes the body before the commit, as ever', async () => {
  const plain: BlobStore = Object.create(here(), { inTransaction: { value: undefined } });
  const { scenario: next, unitOfWork } = await start(plain);
  const scenario = next();
  let before: string[] = [];
  unitOfWork.beforeCommit = async () => void (before = await storedBlobs());
  const first = await scenario.post('/statement');
  expect(before).toHaveLength(1);
  expectReplay(await scenario.post('/statement'), first);
});
