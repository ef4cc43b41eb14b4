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
const GATE = 7;
const HELD_AT_THE_GATE = `pg_locks WHERE locktype = 'advisory' AND objid = ${GATE} AND NOT granted`;

const TIMEOUT_MS = 20_000;
const POLL_MS = 50;
/** A busy machine must not look like a database that is down. */
const LONG_TIMEOUTS = { STORE: 'postgres', COMMAND_TIMEOUT_MS: '5000' };

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

const pay = (api: ApiProcess) =>
  post(api, '/payments', randomUUID(), { amount: 4999, currency: 'EUR' });

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
  let api: ApiProcess | undefined;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'idempotency-sample-'));
    // As root, the server runs as another user, who needs access.
    chmodSync(folder, 0o755);
  });
  afterEach(async () => {
    await api?.kill();
    rmSync(folder, { recursive: true, force: true });
  });

  it.each([isTestAll ? 'SIGKILL' : 'SIGINT'] as const)(
    'pays, replays and refunds, and after %s leaves neither server nor data behind',
    async (signal) => {
      api = await startApi({ TMPDIR: folder, PROVIDER_DELAY_MS: '20' });
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
    let apis: [ApiProcess, ApiProcess];
    const started: ApiProcess[] = [];

    beforeAll(async () => {
      const settings = { DATABASE_URL: url, PROVIDER_DELAY_MS: '200' };
      apis = await Promise.all([startApi(settings), startApi(settings)]);
      started.push(...apis);
    }, 60_000);
    afterAll(async () => {
      await Promise.all(started.map((api) => api.kill()));
    });

    async function count(from: string): Promise<number> {
      const { rows } = await pool.query<{ count: string }>(`SELECT count(*) FROM ${from}`);
      return Number(rows[0]?.count);
    }

    /** While `during` runs, blocks transactions that have written a line and not committed yet. */
    async function withGateAfterWrites(during: () => Promise<void>): Promise<void> {
      const gate = await pool.connect();
      try {
        await gate.query(`
        SELECT pg_advisory_lock(${GATE});
        CREATE FUNCTION pass_the_gate() RETURNS trigger LANGUAGE plpgsql
          AS 'BEGIN PERFORM pg_advisory_xact_lock(${GATE}); RETURN NULL; END';
        CREATE TRIGGER gate AFTER INSERT ON ${SCHEMA}.ledger
          FOR EACH ROW EXECUTE FUNCTION pass_the_gate();`);
        await during();
      } finally {
        // The lock ends with the connection.
        gate.release(true);
      }
    }

    const refunds = () => count(`${SCHEMA}.ledger WHERE kind = 'refund'`);

    it('refund no more than was paid when two requests are concurrent', async () => {
      const { json: payment } = await pay(apis[0]);
      const before = await refunds();
      const path = `/payments/${payment.id}/refunds`;
      const responses = await Promise.all(
        apis.map((api) => post(api, path, randomUUID(), { amount: 4000 })),
      );
      expect(responses.map(({ status }) => status).sort()).toEqual([201, 400]);
      expect(await refunds()).toBe(before + 1);
    });

    it('commit a refund with its record or, when the process is killed before, neither', async () => {
      const victim = await startApi({
        DATABASE_URL: url,
        LEASE_MS: '4000',
        PROVIDER_DELAY_MS: '20',
      });
      started.push(victim);
      const { json: payment } = await pay(apis[0]);
      const before = await refunds();
      const [key, path] = [randomUUID(), `/payments/${payment.id}/refunds`];
      const refund = (api: ApiProcess) => post(api, path, key, { amount: 4000 });

      await withGateAfterWrites(async () => {
        const lost = refund(victim).catch(() => 'no response');
        await until(async () => (await count(HELD_AT_THE_GATE)) === 1);
        await victim.kill();
        expect(await lost).toBe('no response');
      });
      await until(async () => (await count(HELD_AT_THE_GATE)) === 0);
      expect(await refunds()).toBe(before);
      expect(await count(`${SCHEMA}.idempotency_records WHERE state = 'in_progress'`)).toBe(1);

      let response = await refund(apis[0]);
      await until(async () => {
        if (response.status === 409) response = await refund(apis[0]);
        return response.status !== 409;
      });
      expect(response).toMatchObject({ status: 201, isReplay: false, json: { amount: 4000 } });
      expect(await refund(apis[1])).toEqual({ ...response, isReplay: true });
      expect(await refunds()).toBe(before + 1);
    }, 60_000);
  });
});
