import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { fromPg } from 'nestjs-idempotency/pg';
import { migrate, PostgresIdempotencyStore, postgresStore } from 'nestjs-idempotency/postgres';
import type { Fingerprint } from 'nestjs-idempotency/store';
import type { Pool } from 'pg';
import { inStandingTime } from '../../support/clocks/driven-time.js';
import {
  type Lease,
  type RecordKey,
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
  ValueNotStorableError,
} from '../../support/internals/core.js';
import { afterTest } from '../../support/jest/after-test.js';
import { rejection } from '../../support/nest/calling-app.js';
import { findPgBouncer } from '../../support/postgres/pgbouncer-server.js';
import type { TestedPoolConfig } from '../../support/postgres/postgres-pool.js';
import { ShiftingRelay } from '../../support/postgres/shifting-relay.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { watchedPool } from '../../support/postgres/watched-pool.js';
import { freePort } from '../../support/servers/free-port.js';
import { TcpRelay } from '../../support/servers/tcp-relay.js';
import {
  acquire,
  beginCommand,
  completeCommand,
  end,
  extendCommand,
  leaseOf,
  newRecordKey,
  releaseCommand,
  TIMEOUT_MS,
  watch as watchFor,
} from '../../support/stores/commands.js';
import { until } from '../../support/waiting/until.js';
import {
  bouncedDatabase,
  bouncedStore,
  durableEnough,
  expectBurstIsServed,
  startApp,
} from './support/behind-pgbouncer.js';
import { closeAfterTest, ownStore, throughPort, userPool } from './support/fixture.js';

const server = usePostgres();

describe('connections', () => {
  const TIMEOUT_MS = 10_000;
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
      expect(
        await store.release(released.lease, releaseCommand({ timeoutMs: TIMEOUT_MS })),
      ).toEqual({
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
        let knocking: NodeJS.Timeout | undefined;
        socket
          .on('error', () => undefined)
          .on('close', () => {
            clearInterval(knocking);
            open.delete(socket);
          });
        const answer = () => {
          socket.write(reply);
          // Not before: it would be the reply.
          knocking = setInterval(() => socket.write('?'), 10);
        };
        socket.once('data', answer).resume();
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
      [
        'a directory in place of a file',
        (address: URL) => (address.search = '?sslrootcert=/'),
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

  it.each([
    ['resets', (socket: Socket) => socket.resetAndDestroy()],
    ['ends', (socket: Socket) => socket.end()],
  ])('A server that %s each connection is unavailable, not misconfigured', async (_, refuse) => {
    const refusing = createServer((socket) => {
      socket.on('error', () => undefined).once('data', () => refuse(socket));
    }).listen(0, '127.0.0.1');
    afterTest(() => void refusing.close());
    await once(refusing, 'listening');
    const { port } = refusing.address() as AddressInfo;
    const store = ownStore(throughPort(url, port));
    const attempt = store.begin(beginCommand({ timeoutMs: 500 }));
    await expect(attempt).rejects.toThrow(StoreUnavailableError);
    expect(await store.open()).toEqual([expect.objectContaining({ code: 'postgres_unreachable' })]);
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
        await expect(ownStore(url).begin(beginCommand({ timeoutMs: 1_500 }))).rejects.toMatchObject(
          {
            code: 'idempotency_store_outcome_unknown',
            message: 'PostgreSQL may have executed the command: no reply in time, after: staged',
          },
        );
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
      // begin, extend, complete, and four at the start.
      expect(await prepared(true)).toBe(7);
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
      ['a note of 241 characters', { note: 'x'.repeat(241) }],
    ])('is rejected: %s', async (_, changes) => {
      await expect(ownStore(url).begin(beginCommand(changes))).rejects.toThrow(
        ValueNotStorableError,
      );
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

    it.each(['records', 'journal'])(
      'warn of a table that a crash of the server empties: %s',
      async (suffix) => {
        const own = await server.newDatabase();
        const options = { journal: { service: 'shop', version: '1' } };
        await migrate({ url: own, ...options });
        const admin = userPool(own);
        await admin.query(`ALTER TABLE idempotency_${suffix} SET UNLOGGED`);
        expect(await ownStore(own, options).open()).toMatchObject([
          { code: 'postgres_not_durable' },
          { code: 'postgres_table_unlogged', message: expect.stringContaining(suffix) as unknown },
        ]);
      },
    );
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
});

describe('pgbouncer', () => {
  const database = (settings?: Readonly<Record<string, string | number>>) =>
    bouncedDatabase(() => server.newDatabase(), settings);

  // Without one, `npm test` has reported what is missing: test/support/provision.
  (findPgBouncer() === undefined ? describe.skip : describe)(
    'Behind PgBouncer in transaction mode',
    () => {
      it('an application’s own pool serves a burst: statements that mix are sent again without names', async () => {
        const { direct, bouncer } = await database();
        const client = userPool(bouncer.url, { max: 10 });
        const { service, log, codes } = await startApp(
          postgresStore({ executor: fromPg(client), push: false, deleteExpired: false }),
        );
        expect(codes()).toEqual([durableEnough]);
        await expectBurstIsServed(service, direct);
        expect(codes()).toEqual([durableEnough, 'postgres_statements_unnamed']);
        expect(log.own.at(-1)).toContain('Set preparedStatements: false');
      });

      it('the store’s own pool does, without the time limits that PgBouncer refuses', async () => {
        const { direct, bouncer } = await database();
        const { service, log, codes } = await startApp(
          bouncedStore(bouncer, { listenUrl: direct }),
        );
        expect(codes()).toEqual(['postgres_time_limits_rejected', durableEnough]);
        expect(log.own[0]).toMatch(/ALTER ROLE .* ignore_startup_parameters/);
        await expectBurstIsServed(service, direct);
      });

      it('nothing is refused with ignore_startup_parameters, nor without prepared statements', async () => {
        const { direct, bouncer } = await database({
          ignore_startup_parameters: 'statement_timeout,lock_timeout',
        });
        for (const options of [{}, { preparedStatements: false }]) {
          const { codes } = await startApp(
            bouncedStore(bouncer, { listenUrl: direct, ...options }),
          );
          expect(codes()).toEqual([durableEnough]);
        }
      });

      it('a time limit of the application’s own that is refused stops the start, with the remedy', async () => {
        const { bouncer } = await database();
        const store = bouncedStore(bouncer, { connection: { statement_timeout: 7_000 } });
        const error = await rejection(startApp(store));
        expect(error.code).toBe('idempotency_store_misconfigured');
        expect(error.message).toMatch(/statement_timeout\. Add it to ignore_startup_parameters/);
      });
    },
  );
});

describe('push', () => {
  let url: string;
  let observer: Pool;

  beforeAll(async () => {
    url = await server.newDatabase();
    await migrate({ url });
  });
  beforeEach(() => {
    observer = userPool(url);
  });

  const watch = (store: PostgresIdempotencyStore, record: Pick<Lease, 'recordKey'>) =>
    watchFor(store, record, 10_000);

  async function listeners(): Promise<number[]> {
    const { rows } = await observer.query<{ pid: number }>(
      `SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN %' AND datname = current_database()`,
    );
    return rows.map(({ pid }) => pid);
  }

  describe.each([
    ['its own pool', () => ownStore(url)],
    [
      'a pool of the application and listenUrl',
      () => {
        const store = postgresStore({ executor: fromPg(userPool(url)), listenUrl: url });
        closeAfterTest({ stop: () => store.close() });
        return store;
      },
    ],
    ['listenUrl past a pooler', () => ownStore(url, { preparedStatements: false, listenUrl: url })],
  ])('A store with %s', (_, open) => {
    it.each(['completed', 'released'] as const)(
      'notifies that a watched record was %s, and of no other record',
      async (how) => {
        const [worker, other] = [open(), open()];
        const [watched, neighbour] = [await acquire(worker), await acquire(worker)];
        const watcher = await watch(other, watched);
        await end[how](worker, neighbour, true);
        await end[how](worker, watched, true);
        await until(() => watcher.reported > 0);
        expect(watcher.reported).toBe(1);
        watcher.stop?.();
      },
    );
  });

  describe('A store', () => {
    it('notifies all watchers, and publishes nothing without watchers', async () => {
      const [worker, other] = [ownStore(url), ownStore(url)];
      const [silent, reported] = [await acquire(worker), await acquire(worker)];
      const ignored = await watch(other, silent);
      const watchers = await Promise.all(Array.from({ length: 20 }, () => watch(other, reported)));
      expect(await listeners()).toHaveLength(1);
      await end.completed(worker, silent);
      await end.completed(worker, reported, true);
      await until(() => watchers.every((watcher) => watcher.reported === 1));
      // Notifications come in the order of their commits.
      expect(ignored.reported).toBe(0);
    });

    it('listens again after its connection broke', async () => {
      const [worker, other] = [ownStore(url), ownStore(url)];
      const lease = await acquire(worker);
      const watcher = await watch(other, lease);
      const [first] = await listeners();
      await observer.query('SELECT pg_terminate_backend($1)', [first]);
      await until(async () => {
        const [now] = await listeners();
        return now !== undefined && now !== first;
      });
      await end.released(worker, lease, true);
      await until(() => watcher.reported === 1);
    });

    it('receives nothing for records of another table', async () => {
      const worker = ownStore(url, { table: 'others' });
      await worker.migrate();
      const listener = ownStore(url);
      const lease = await acquire(worker);
      const [here, there] = [await watch(listener, lease), await watch(worker, lease)];
      await end.completed(worker, lease, true);
      await until(() => there.reported === 1);
      expect(here.reported).toBe(0);
    });

    it('stores the outcome even when the notification fails', async () => {
      const store = ownStore(url);
      const lease = await acquire(store);
      await watch(store, lease);
      await observer.query('CREATE SCHEMA mute');
      await observer.query(`CREATE FUNCTION mute.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'too many notifications'; END $$`);
      const mute = ownStore(url, { connection: { options: '-c search_path=mute,pg_catalog' } });
      expect(await end.completed(mute, lease, true)).toEqual({ kind: 'ok' });
    });

    it('returns no watch when it cannot listen', async () => {
      const recordKey = newRecordKey();
      const watched = (store: PostgresIdempotencyStore) =>
        store.watch(recordKey, () => undefined, { timeoutMs: TIMEOUT_MS });
      const onPool = postgresStore({ executor: fromPg(userPool(url)) });
      expect(await watched(onPool)).toBeUndefined();
      expect(await watched(ownStore(url, { push: false }))).toBeUndefined();
      expect(await watched(ownStore(url, { preparedStatements: false }))).toBeUndefined();
      const nowhere = ownStore(url, { listenUrl: 'postgres://127.0.0.1:1/nowhere' });
      expect(await watched(nowhere)).toBeUndefined();
      expect(await listeners()).toEqual([]);
    });

    it('closes its listening connection', async () => {
      const store = ownStore(url);
      await watch(store, { recordKey: newRecordKey() });
      await store.close();
      await until(async () => (await listeners()).length === 0);
    });
  });
});

const BODY_BYTES = 1_048_576;

it('a mismatch transfers no body, a replay does', async () => {
  const url = await server.newDatabase();
  await migrate({ url });
  let bytes = 0;
  const client = watchedPool(userPool(url), (_sent, result) => {
    bytes = JSON.stringify(result.rows).length;
    return result;
  });
  const store = new PostgresIdempotencyStore({ client, deleteExpired: false });
  const command = beginCommand();
  const { recordKey, token } = command;
  const begun = await store.begin(command);
  if (begun.kind !== 'acquired') throw new Error(`begin returned ${begun.kind}`);
  const outcome = { header: '[1,201]', body: Buffer.alloc(BODY_BYTES, 'a') };
  await store.complete({ recordKey, token, fence: begun.fence }, completeCommand({ outcome }));

  const other = beginCommand({ recordKey, fingerprint: 'another content' as Fingerprint });
  expect(await store.begin(other)).toEqual({ kind: 'mismatch' });
  expect(bytes).toBeLessThan(500);
  expect(await store.begin(beginCommand({ recordKey }))).toMatchObject({ kind: 'completed' });
  expect(bytes).toBeGreaterThan(BODY_BYTES);
});
