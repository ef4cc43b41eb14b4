import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { migrate, PostgresIdempotencyStore } from 'nestjs-idempotency/postgres';
import { loadStatements, TableName } from '../../support/internals/postgres.js';
import { withSqlClock } from '../../support/clocks/injected-clock.js';
import { startPostgres, type PostgresServer } from '../../support/postgres/postgres-server.js';
import { START_HOOK_MS } from '../../support/servers/start-server.js';
import {
  beginCommand,
  completeCommand,
  leaseOf,
  newToken,
  releaseCommand,
} from '../../support/stores/commands.js';
import { ownStore, userPool } from './support/fixture.js';

/** FIRST_REQUESTS=10000 for the long run. */
const PAIRS = Number(process.env.FIRST_REQUESTS ?? 500);
const AT_ONCE = 8;
const TIMEOUT_MS = 10_000;

let server: PostgresServer;
let url: string;

beforeAll(async () => {
  server = await startPostgres();
  url = await server.newDatabase();
  await migrate({ url });
}, START_HOOK_MS);
afterAll(() => server.stop());

describe.each(['read committed', 'repeatable read', 'serializable'])(
  'Two concurrent first requests, where transactions are %s by default',
  (isolation) => {
    it('acquire once, without a unique violation for the client or in the log', async () => {
      const options = `-c default_transaction_isolation=${isolation.replace(' ', '\\ ')}`;
      // Two processes have a pool each.
      const stores = [1, 2].map(() => ownStore(url, { connection: { options, max: AT_ONCE } }));
      const kinds: string[][] = [];
      let left = PAIRS;
      const race = async () => {
        while (left-- > 0) {
          const begin = beginCommand({ timeoutMs: TIMEOUT_MS });
          const replies = await Promise.all(
            stores.map((store) => store.begin({ ...begin, token: newToken() })),
          );
          kinds.push(replies.map(({ kind }) => kind).sort());
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, race));
      expect(kinds).toHaveLength(PAIRS);
      expect(kinds.filter((pair) => pair.join() !== 'acquired,in_progress')).toEqual([]);
      expect(server.log.join('')).not.toMatch(/duplicate key|unique constraint/);
    }, 300_000);
  },
);

describe('A record whose lease is over', () => {
  const begun = async (store: PostgresIdempotencyStore) => {
    const begin = beginCommand({ leaseMs: 1, timeoutMs: TIMEOUT_MS });
    await store.begin(begin);
    return { begin, key: Buffer.from(begin.recordKey, 'base64url') };
  };
  const lock = 'SELECT 1 FROM idempotency_records WHERE record_key = $1 FOR UPDATE';

  it('is in progress while a transaction holds its row, and is taken over afterwards', async () => {
    const store = ownStore(url);
    const { begin, key } = await begun(store);
    const holder = await userPool(url).connect();
    await holder.query('BEGIN');
    await holder.query(lock, [key]);
    const other = { ...begin, token: newToken() };
    expect(await store.begin(other)).toEqual({ kind: 'in_progress', leaseLeftMs: 0 });
    await holder.query('ROLLBACK');
    holder.release();
    expect(await store.begin(other)).toMatchObject({ kind: 'takeover', attempt: 2, takeovers: 1 });
  });

  it('is not taken over after notAfter, even when the second statement is late', async () => {
    const { begin } = await begun(ownStore(url));
    const late = `(statement_timestamp() + interval '1 hour')`;
    const statements = loadStatements(new TableName(), (text, file) =>
      file === 'acquire' ? withSqlClock(text, late) : text,
    );
    const store = new PostgresIdempotencyStore({ client: userPool(url), statements });
    const other = { ...begin, token: newToken(), notAfter: Date.now() + 60_000, timeoutMs: 1_500 };
    await expect(store.begin({ ...other, recordKey: begin.recordKey })).resolves.toEqual({
      kind: 'in_progress',
      leaseLeftMs: 0,
    });
  });
});

describe('A released record', () => {
  it('makes a begin wait while a transaction holds its row, and begins then', async () => {
    const store = ownStore(url);
    const begin = beginCommand({ timeoutMs: TIMEOUT_MS });
    const reply = await store.begin(begin);
    await store.release(leaseOf(begin, 'fence' in reply ? reply.fence : 0), releaseCommand());
    const holder = await userPool(url).connect();
    await holder.query('BEGIN');
    await holder.query('SELECT 1 FROM idempotency_records WHERE record_key = $1 FOR UPDATE', [
      Buffer.from(begin.recordKey, 'base64url'),
    ]);
    const again = { ...begin, token: newToken() };
    // On a busy machine the reply to the cancellation may be late, and the outcome unknown: not five times.
    const codes: unknown[] = [];
    const isUnavailable = () => codes.at(-1) === 'idempotency_store_unavailable';
    while (codes.length < 5 && !isUnavailable()) {
      const begun = store.begin({ ...again, timeoutMs: 200 });
      codes.push(await begun.catch((error: unknown) => (error as { code?: unknown }).code));
    }
    expect(isUnavailable()).toBe(true);
    const waiting = store.begin(again);
    await holder.query('ROLLBACK');
    holder.release();
    expect(await waiting).toMatchObject({ kind: 'acquired', attempt: 2, takeovers: 0 });
  });
});

describe('A hundred attempts at once', () => {
  it('end with one outcome for all [P12]', async () => {
    const stores = [ownStore(url), ownStore(url)];
    const begin = beginCommand({ leaseMs: 1, timeoutMs: TIMEOUT_MS });
    // Each lease expires at once, so that every attempt can be taken over.
    const outcomes = await Promise.all(
      Array.from({ length: 100 }, async (_, index) => {
        const store = stores[index % 2]!;
        const own = { ...begin, token: newToken() };
        const begun = await store.begin(own);
        if (!('now' in begun && 'fence' in begun)) return undefined;
        const body = randomBytes(16);
        const lease = leaseOf(own, begun.fence);
        const outcome = { header: '{}', body };
        const done = await store.complete(
          lease,
          completeCommand({ outcome, timeoutMs: TIMEOUT_MS }),
        );
        return done.kind === 'ok' || done.kind === 'ok_late' ? body.toString('hex') : undefined;
      }),
    );
    const stored = outcomes.filter((outcome) => outcome !== undefined);
    expect(stored).toHaveLength(1);
    const replay = await stores[0]!.begin({ ...begin, token: newToken() });
    expect(replay).toMatchObject({ kind: 'completed' });
    expect('outcome' in replay && Buffer.from(replay.outcome.body).toString('hex')).toBe(stored[0]);
  });
});
