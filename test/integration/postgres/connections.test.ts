import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Pool } from 'pg';
import { migrate, PostgresIdempotencyStore } from 'nestjs-idempotency/postgres';
import {
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
  ValueNotStorableError,
  type RecordKey,
} from '../../support/internals/core.js';
import { freePort } from '../../support/servers/free-port.js';
import type { TestedPoolConfig } from '../../support/postgres/postgres-pool.js';
import { ShiftingRelay } from '../../support/postgres/shifting-relay.js';
import { TcpRelay } from '../../support/servers/tcp-relay.js';
import { inStandingTime } from '../../support/clocks/driven-time.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import {
  beginCommand,
  completeCommand,
  extendCommand,
  leaseOf,
  releaseCommand,
} from '../../support/stores/commands.js';
import { until } from '../../support/waiting/until.js';
import { closeAfterTest, ownStore, throughPort, userPool } from './support/fixture.js';

const TIMEOUT_MS = 10_000;

const server = usePostgres();
let url: string;
let observer: Pool;

beforeAll(async () => {
  url = await server.newDatabase();
  await migrate({ url });
});
beforeEach(() => {
  observer = userPool(url);
});

async function backends(state: string): Promise<number[]> {
  const { rows } = await observer.query<{ pid: number }>(
    `SELECT pid FROM pg_stat_activity
     WHERE application_name = 'nestjs-idempotency' AND datname = current_database() AND ${state}`,
  );
  return rows.map(({ pid }) => pid);
}

async function acquired(store: PostgresIdempotencyStore) {
  const begin = beginCommand({ timeoutMs: TIMEOUT_MS });
  const reply = await store.begin(begin);
  return { begin, lease: leaseOf(begin, reply.kind === 'acquired' ? reply.fence : -1) };
}

describe('When the connection breaks before the reply', () => {
  it('each command is sent again, and its reply reflects the first execution', async () => {
    const relay = closeAfterTest(await TcpRelay.start(server.port));
    const store = ownStore(throughPort(url, relay.port), { connection: { max: 1 } });
    await acquired(store);
    const begin = beginCommand({ timeoutMs: TIMEOUT_MS });

    relay.breakAtNextReply();
    const begun = await store.begin(begin);
    expect(begun).toMatchObject({ kind: 'owned', attempt: 1, takeovers: 0 });
    const lease = leaseOf(begin, 'fence' in begun ? begun.fence : -1);
    relay.breakAtNextReply();
    expect(await store.extend(lease, extendCommand({ timeoutMs: TIMEOUT_MS }))).toEqual({
      kind: 'ok',
    });
    relay.breakAtNextReply();
    expect(await store.complete(lease, completeCommand({ timeoutMs: TIMEOUT_MS }))).toEqual({
      kind: 'already',
    });
    const released = await acquired(store);
    relay.breakAtNextReply();
    expect(await store.release(released.lease, releaseCommand({ timeoutMs: TIMEOUT_MS }))).toEqual({
      kind: 'already',
    });
  });

  it('because the server ended it, the command is sent again over another connection', async () => {
    const store = ownStore(url, { connection: { max: 1 } });
    await acquired(store);
    const holder = await observer.connect();
    await holder.query('BEGIN');
    await holder.query('LOCK TABLE idempotency_records IN ACCESS EXCLUSIVE MODE');
    const waiting = acquired(store);
    await until(async () => (await backends(`wait_event_type = 'Lock'`)).length === 1);
    await observer.query(
      'SELECT pg_terminate_backend($1)',
      await backends(`wait_event_type = 'Lock'`),
    );
    await holder.query('ROLLBACK');
    holder.release();
    expect((await waiting).lease.fence).toBeGreaterThan(0);
  });

  it('of an idle connection, the next command succeeds', async () => {
    const store = ownStore(url, { connection: { max: 1 } });
    await acquired(store);
    await observer.query('SELECT pg_terminate_backend($1)', await backends(`state = 'idle'`));
    await until(async () => (await backends('true')).length === 0);
    expect((await acquired(store)).lease.fence).toBeGreaterThan(0);
  });
});

describe('When no reply comes', () => {
  it('the outcome is unknown by the deadline, and the connection is not used again', async () => {
    const relay = closeAfterTest(await TcpRelay.start(server.port));
    await inStandingTime(async ({ pass }) => {
      const pool = userPool(throughPort(url, relay.port), { max: 1 });
      const store = new PostgresIdempotencyStore({ client: pool });
      await acquired(store);
      relay.swallowReplies();
      const begun = store.begin(beginCommand({ timeoutMs: 200 }));
      const unknown = expect(begun).rejects.toThrow(StoreOutcomeUnknownError);
      await pass(200);
      await unknown;
      await until(() => relay.openConnections === 0);
      relay.deliver();
      expect((await acquired(store)).lease.fence).toBeGreaterThan(0);
      expect(pool.totalCount).toBe(1);
    });
  });

  it('because another transaction holds the table, the abandoned statement also ends at the server', async () => {
    const store = ownStore(url, { connection: { max: 1, lock_timeout: 500 } });
    const holder = await observer.connect();
    await holder.query('BEGIN');
    await holder.query('LOCK TABLE idempotency_records IN ACCESS EXCLUSIVE MODE');
    const begin = beginCommand({ timeoutMs: 200 });
    await expect(store.begin(begin)).rejects.toThrow(StoreOutcomeUnknownError);
    await until(async () => (await backends('true')).length === 0);
    await holder.query('ROLLBACK');
    holder.release();
    expect(await store.inspect(begin.recordKey, { timeoutMs: TIMEOUT_MS })).toBeUndefined();
  });
});

describe('Without a connection, a begin is unavailable within its timeout', () => {
  it('when no server listens', async () => {
    const store = ownStore(throughPort(url, await freePort()));
    await expect(store.begin(beginCommand({ timeoutMs: 200 }))).rejects.toThrow(
      StoreUnavailableError,
    );
    expect(await store.open()).toMatchObject([{ code: 'postgres_unreachable' }]);
  });

  it('when a server accepts and never replies', async () => {
    const silent = createServer(() => undefined).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    closeAfterTest({ stop: async () => void silent.close() });
    const { port } = silent.address() as { port: number };
    const store = ownStore(throughPort(url, port), {
      connection: { connectionTimeoutMillis: 500 },
    });
    await expect(store.begin(beginCommand({ timeoutMs: 200 }))).rejects.toThrow(
      StoreUnavailableError,
    );
  });

  it.each([
    ['is not PostgreSQL', 'J', 'is not PostgreSQL: check host and port'],
    ['refuses TLS', 'N', 'leave out sslmode'],
    ['fails within TLS', 'S', 'did not execute the command'],
    ['sends an error', 'E', 'is not PostgreSQL: check host and port'],
  ])('when what replies %s, and leaves no socket open', async (_, reply, remedy) => {
    const open = new Set<Socket>();
    // Such a server ends no connection by itself: only a closed socket resets it.
    const other = createServer({ allowHalfOpen: true }, (socket) => {
      open.add(socket);
      const knocking = setInterval(() => socket.write('?'), 10);
      socket
        .on('error', () => undefined)
        .on('close', () => {
          clearInterval(knocking);
          open.delete(socket);
        });
      socket.once('data', () => socket.write(reply)).resume();
    }).listen(0, '127.0.0.1');
    await once(other, 'listening');
    closeAfterTest({
      stop: async () => {
        for (const socket of open) socket.destroy();
        other.close();
      },
    });
    const { port } = other.address() as { port: number };
    const store = ownStore(`${throughPort(url, port)}?sslmode=require`);
    const begin = beginCommand({ timeoutMs: 300 });
    await expect(store.begin(begin)).rejects.toThrow(remedy);
    await store.watch(begin.recordKey, () => undefined, begin).catch(() => undefined);
    await store.close();
    await until(() => open.size === 0);
  });

  it('at once when the store is closed', async () => {
    const store = ownStore(url);
    await store.close();
    await inStandingTime(() =>
      expect(store.begin(beginCommand({ timeoutMs: 5_000 }))).rejects.toThrow(
        'the store is closed',
      ),
    );
  });

  it('while the server has too many connections, and succeeds afterwards', async () => {
    await observer.query('CREATE ROLE crowded LOGIN PASSWORD $$crowded$$ CONNECTION LIMIT 1');
    await observer.query('GRANT ALL ON ALL TABLES IN SCHEMA public TO crowded');
    const crowded = new URL(url);
    [crowded.username, crowded.password] = ['crowded', 'crowded'];
    const taken = await userPool(crowded.href).connect();
    const store = ownStore(crowded.href);
    const rejected = store.begin(beginCommand({ timeoutMs: 1_500 }));
    await expect(rejected).rejects.toThrow(StoreUnavailableError);
    await expect(rejected).rejects.toThrow('Raise max_connections');
    const waiting = store.begin(beginCommand({ timeoutMs: TIMEOUT_MS }));
    taken.release(true);
    expect(await waiting).toMatchObject({ kind: 'acquired' });
  });
});

describe('A configuration that cannot work is a configuration error', () => {
  it.each([
    [
      'a wrong password',
      (address: URL) => (address.password = 'wrong'),
      'Check the user name and the password',
    ],
    [
      'a missing database',
      (address: URL) => (address.pathname = '/nowhere'),
      'Check the name of the database',
    ],
    [
      'a missing file',
      (address: URL) => (address.search = '?sslrootcert=/nonexistent/x'),
      'Check sslcert, sslkey and sslrootcert of the URL',
    ],
  ])('%s', async (_, spoil, remedy) => {
    const address = new URL(url);
    spoil(address);
    const store = ownStore(address.href);
    const attempt = store.begin(beginCommand({ timeoutMs: TIMEOUT_MS }));
    await expect(attempt).rejects.toThrow(StoreConfigurationError);
    await expect(attempt).rejects.toThrow(remedy);
    await expect(store.open()).rejects.toThrow(StoreConfigurationError);
  });

  it('a read-only user', async () => {
    const store = ownStore(url, {
      connection: { options: '-c default_transaction_read_only=on' },
    });
    await expect(store.begin(beginCommand({ timeoutMs: 1_500 }))).rejects.toThrow(
      'in a read-only transaction',
    );
  });
});

describe('A deadlock or a serialization failure', () => {
  it.each(['40001', '40P01'])('%s is retried and never reaches the caller', async (state) => {
    await observer.query(`
      CREATE SEQUENCE failures_${state};
      CREATE FUNCTION fail_${state}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('failures_${state}') <= 3 THEN RAISE EXCEPTION 'staged' USING ERRCODE = '${state}'; END IF;
        RETURN NEW;
      END $$;
      CREATE TRIGGER fail_${state} BEFORE INSERT ON idempotency_records
        FOR EACH ROW EXECUTE FUNCTION fail_${state}();`);
    try {
      const { kind } = await ownStore(url).begin(beginCommand({ timeoutMs: TIMEOUT_MS }));
      expect(kind).toBe('acquired');
      const { rows } = await observer.query(`SELECT last_value FROM failures_${state}`);
      expect(rows).toEqual([{ last_value: '4' }]);
    } finally {
      await observer.query(`DROP FUNCTION fail_${state}() CASCADE`);
    }
  });

  it('is named when the retry gets no reply', async () => {
    await observer.query(`
      CREATE SEQUENCE tries;
      CREATE FUNCTION fail_then_stay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('tries') = 1 THEN RAISE EXCEPTION 'staged' USING ERRCODE = '40001'; END IF;
        PERFORM pg_sleep(60);
        RETURN NEW;
      END $$;
      CREATE TRIGGER fail_then_stay BEFORE INSERT ON idempotency_records
        FOR EACH ROW EXECUTE FUNCTION fail_then_stay();`);
    try {
      await expect(ownStore(url).begin(beginCommand({ timeoutMs: 1_500 }))).rejects.toMatchObject({
        code: 'idempotency_store_outcome_unknown',
        message: 'PostgreSQL may have executed the command: no reply in time, after: staged',
      });
    } finally {
      await observer.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event = 'PgSleep'`);
      await observer.query('DROP FUNCTION fail_then_stay() CASCADE');
    }
  });
});

describe('Handlers that hold every connection of the application’s pool', () => {
  it('do not starve begin, extend or complete of a store with its own pool', async () => {
    const pool = userPool(url, { max: 3 });
    const store = ownStore(url, { connection: { max: 1 } });
    const held = await Promise.all([1, 2, 3].map(() => pool.connect()));
    const attempts = await Promise.all(Array.from({ length: 20 }, () => acquired(store)));
    const settled = await Promise.all(
      attempts.map(async ({ lease }) => {
        await store.extend(lease, extendCommand({ timeoutMs: TIMEOUT_MS }));
        return store.complete(lease, completeCommand({ timeoutMs: TIMEOUT_MS }));
      }),
    );
    expect(settled.every(({ kind }) => kind === 'ok')).toBe(true);
    for (const connection of held) connection.release();
  });

  it('make a store on that pool unavailable by the deadline, until a connection is free', async () => {
    const pool = userPool(url, { max: 1 });
    const store = new PostgresIdempotencyStore({ client: pool });
    const held = await pool.connect();
    const begin = beginCommand({ timeoutMs: 200 });
    await expect(store.begin(begin)).rejects.toThrow(StoreUnavailableError);
    held.release();
    expect((await acquired(store)).lease.fence).toBeGreaterThan(0);
    expect(await store.inspect(begin.recordKey, { timeoutMs: TIMEOUT_MS })).toBeUndefined();
  });
});

describe('Prepared statements', () => {
  async function prepared(preparedStatements: boolean): Promise<number> {
    const pool = userPool(url, { max: 1 });
    const store = new PostgresIdempotencyStore({ client: pool, preparedStatements });
    const { begin, lease } = await acquired(store);
    await store.extend(lease, extendCommand());
    await store.complete(lease, completeCommand());
    await store.begin({ ...begin, token: begin.token });
    await store.open();
    const { rows } = await pool.query(
      'SELECT count(*)::integer AS count FROM pg_prepared_statements',
    );
    return rows[0].count;
  }

  it('are created once for each statement', async () => {
    // begin, extend, complete, and three at the start.
    expect(await prepared(true)).toBe(6);
  });

  it('are not created with preparedStatements: false, for poolers in transaction mode', async () => {
    expect(await prepared(false)).toBe(0);
  });

  it('that a pooler has lost are sent again without names, which is reported once', async () => {
    const pool = userPool(url, { max: 1 });
    let connections = 0;
    pool.on('connect', () => (connections += 1));
    const store = new PostgresIdempotencyStore({ client: pool, deleteExpired: false });
    const warned: string[] = [];
    await store.open({
      replyMismatched: () => undefined,
      warned: ({ code }) => void warned.push(code),
    });
    await acquired(store);
    await pool.query('DEALLOCATE ALL');
    const { lease } = await acquired(store);
    await store.complete(lease, completeCommand({ timeoutMs: TIMEOUT_MS }));
    const { rows } = await pool.query('SELECT name FROM pg_prepared_statements');
    expect(rows).toEqual([]);
    expect(warned).toEqual(['postgres_statements_unnamed']);
    expect(connections).toBe(1);
  });
});

describe('A value that cannot be stored without loss', () => {
  it.each([
    ['a record key that is not a digest', { recordKey: 'fA_' as RecordKey }],
    ['an origin with white space', { origin: 'a b' }],
    ['a note with white space', { note: 'a b' }],
    ['a note beyond ASCII', { note: 'Zoë' }],
    ['an empty note', { note: '' }],
    ['a note of 121 characters', { note: 'x'.repeat(121) }],
  ])('is rejected: %s', async (_, changes) => {
    await expect(ownStore(url).begin(beginCommand(changes))).rejects.toThrow(ValueNotStorableError);
  });
});

describe('close', () => {
  it('leaves the application’s pool open, and ends its own', async () => {
    const pool = userPool(url, { max: 1 });
    const store = new PostgresIdempotencyStore({ client: pool });
    await acquired(store);
    await store.close();
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
    const own = ownStore(url);
    await acquired(own);
    await own.close();
    await until(async () => (await backends('true')).length === 0);
  });
});

describe('The start checks', () => {
  it('report only the missing durability of this test server', async () => {
    expect(await ownStore(url).open()).toMatchObject([{ code: 'postgres_not_durable' }]);
  });

  it('warn of commits that are confirmed before they are flushed to disk', async () => {
    const store = ownStore(url, { connection: { options: '-c synchronous_commit=off' } });
    const codes = (await store.open()).map(({ code }) => code);
    expect(codes).toContain('postgres_commits_late');
  });
});

describe('A pool whose replies', () => {
  it.each<[string, TestedPoolConfig]>([
    ['are bytes', { max: 1, binary: true }],
    ['go through custom parsers', { max: 1, types: { getTypeParser: () => () => 'parsed' } }],
  ])('%s: the store reads them, and keeps the connection', async (_, config) => {
    const pool = userPool(url, config);
    let connections = 0;
    pool.on('connect', () => (connections += 1));
    const store = new PostgresIdempotencyStore({ client: pool, deleteExpired: false });
    const warnings = (await store.open()).map(({ code }) => code);
    expect(warnings).not.toContain('postgres_not_checked');
    const { begin, lease } = await acquired(store);
    await store.extend(lease, extendCommand());
    await store.complete(lease, completeCommand());
    const duplicate = { ...begin, token: beginCommand().token };
    expect(await store.begin(duplicate)).toMatchObject({ kind: 'completed' });
    expect(connections).toBe(1);
  });
});

describe('At the start, a reply that is another command’s', () => {
  it('is reported as such, not as an unreachable server', async () => {
    const relay = closeAfterTest(await ShiftingRelay.start(server.port));
    const client = userPool(throughPort(url, relay.port), { max: 1 });
    await client.query('SELECT 1');
    relay.shiftAt('idempotency_server_');
    const [warning] = await new PostgresIdempotencyStore({ client }).open();
    expect(warning).toMatchObject({ code: 'postgres_not_checked' });
    expect(warning!.message).toMatch(/^PostgreSQL sent the reply of another command/);
  });
});
