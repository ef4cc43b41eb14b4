import { randomUUID } from 'node:crypto';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Pool } from 'pg';
import { ApiProcess } from '../../../sample-app/demo/processes/api-process.js';
import type { LedgerEntry } from '../../../sample-app/src/ledger/ledger.js';
import { PostgresLedger } from '../../../sample-app/src/ledger/postgres-ledger.js';
import { isRunning } from '../../support/processes/processes.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { postgresServers } from '../../support/postgres/postgres-servers.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';

const SCHEMA = 'payments_sample';

const TIMEOUT_MS = 20_000;
const POLL_MS = 50;
/** A busy machine must not look like a database that is down. */
const LONG_TIMEOUTS = { STORE: 'postgres', COMMAND_TIMEOUT: '5s', SAVE_TIMEOUT: '10s' };

async function startApi(settings: Readonly<Record<string, string>>): Promise<ApiProcess> {
  const api = new ApiProcess({ ...LONG_TIMEOUTS, ...settings }, typescriptNodeOptions);
  await api.untilListening();
  return api;
}

async function post(api: ApiProcess, path: string, key: string, body: object) {
  const response = await fetch(api.url + path, {
    method: 'POST',
    headers: {
      authorization: 'Bearer alice-demo-token',
      'idempotency-key': key,
      'content-type': 'application/json',
    },
    body: JSON.stringify(body),
  });
  const isReplay = response.headers.get('idempotent-replayed') === 'true';
  return { status: response.status, isReplay, json: (await response.json()) as any };
}

/** Polls until it is true. */
async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const giveUpAt = performance.now() + TIMEOUT_MS;
  while (!(await isSo())) {
    if (performance.now() > giveUpAt) throw new Error(`Timed out waiting for ${isSo.toString()}`);
    await pause(POLL_MS);
  }
}

describe('the sample app with its own PostgreSQL', () => {
  let folder: string;
  /** Outlives the application, as its clients' retries do. */
  let blobs: string;
  let api: ApiProcess | undefined;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'idempotency-sample-'));
    blobs = mkdtempSync(join(tmpdir(), 'idempotency-sample-blobs-'));
    // As root, the server runs as another user, who needs access.
    chmodSync(folder, 0o755);
  });
  afterEach(async () => {
    await api?.kill();
    for (const each of [folder, blobs]) rmSync(each, { recursive: true, force: true });
  });

  it.each([isTestAll ? 'SIGKILL' : 'SIGINT'] as const)(
    'pays, replays and refunds, and after %s leaves neither server nor data behind',
    async (signal) => {
      api = await startApi({
        TMPDIR: folder,
        BLOBS_DIRECTORY: blobs,
        PROVIDER_DELAY_MS: '20',
      });
      const key = randomUUID();
      const order = { amount: 4999, currency: 'EUR' };
      const first = await post(api, '/payments', key, order);
      expect(first).toMatchObject({ status: 201, isReplay: false, json: order });
      expect(await post(api, '/payments', key, order)).toEqual({ ...first, isReplay: true });
      const refunds = `/payments/${first.json.id}/refunds`;
      const refund = await post(api, refunds, key, { amount: 4000 });
      expect(refund).toMatchObject({ status: 201, json: { paymentId: first.json.id } });
      expect(await post(api, refunds, key, { amount: 4000 })).toEqual({
        ...refund,
        isReplay: true,
      });
      expect(await post(api, refunds, randomUUID(), { amount: 1000 })).toMatchObject({
        status: 400,
        json: { message: 'Only 999 can be refunded' },
      });

      const [data = ''] = readdirSync(folder);
      const pid = Number.parseInt(readFileSync(join(folder, data, 'postmaster.pid'), 'utf8'), 10);
      expect(isRunning(pid)).toBe(true);
      api.signal(signal);
      await until(() => !isRunning(pid) && readdirSync(folder).length === 0);
    },
    60_000,
  );
});

/** Many processes for one refund: only in `npm run test:all`. */
function describeInTestAll(name: string, tests: () => void): void {
  if (isTestAll) describe(name, tests);
}

describe.each(postgresServers)('the sample app on $name', (version) => {
  const server = usePostgres(version);
  let url: string;
  let pool: Pool;

  beforeAll(async () => {
    url = await server.newDatabase();
    pool = openPostgresPool(url);
  });
  afterAll(() => pool.end());

  describe('its ledger', () => {
    beforeAll(async () => {
      await pool.query(`CREATE SCHEMA ${SCHEMA}`);
      await new PostgresLedger(pool, SCHEMA).createTable();
    });

    it('rejects the charge of an attempt that is overtaken between its check and its write', async () => {
      const reference = randomUUID();
      const charge = (fencingToken: number): LedgerEntry => ({
        kind: 'charge',
        id: randomUUID(),
        reference,
        userId: 'alice',
        amount: 4999,
        currency: 'EUR',
        description: undefined,
        fencingToken,
        at: '2026-01-01T00:00:00.000Z',
      });
      const late = charge(2);
      const pausingBeforeWrites = {
        query: async (text: string, values: unknown[]) => {
          if (text.startsWith('INSERT')) await new PostgresLedger(pool, SCHEMA).append(late);
          return pool.query(text, values);
        },
      };
      const early = new PostgresLedger(pausingBeforeWrites as unknown as Pool, SCHEMA).append(
        charge(1),
      );
      await expect(early).rejects.toThrow('A later attempt has moved the money');
      expect(await new PostgresLedger(pool, SCHEMA).entries({ reference })).toEqual([late]);
    });
  });

  describeInTestAll('two processes', () => {
    let apis: ApiProcess[] = [];

    beforeAll(async () => {
      const settings = { DATABASE_URL: url, PROVIDER_DELAY_MS: '200' };
      apis = await Promise.all([startApi(settings), startApi(settings)]);
    }, 60_000);
    afterAll(async () => {
      await Promise.all(apis.map((api) => api.kill()));
    });

    async function refunds(): Promise<number> {
      const { rows } = await pool.query(`SELECT FROM ${SCHEMA}.ledger WHERE kind = 'refund'`);
      return rows.length;
    }

    it('refund no more than was paid when two requests are concurrent', async () => {
      const order = { amount: 4999, currency: 'EUR' };
      const { json: payment } = await post(apis[0]!, '/payments', randomUUID(), order);
      const before = await refunds();
      const path = `/payments/${payment.id}/refunds`;
      const responses = await Promise.all(
        apis.map((api) => post(api, path, randomUUID(), { amount: 4000 })),
      );
      expect(responses.map(({ status }) => status).sort()).toEqual([201, 400]);
      expect(await refunds()).toBe(before + 1);
    });
  });
});
