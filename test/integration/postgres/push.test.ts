import { usePostgres } from '../../support/postgres/use-postgres.js';
import { beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Pool } from 'pg';
import { migrate, postgresStore, type PostgresIdempotencyStore } from 'nestjs-idempotency/postgres';
import type { Lease } from '../../support/internals/core.js';
import {
  newRecordKey,
  TIMEOUT_MS,
  acquire,
  end,
  watch as watchFor,
} from '../../support/stores/commands.js';
import { until } from '../../support/waiting/until.js';
import { closeAfterTest, ownStore, userPool } from './support/fixture.js';

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
      const store = postgresStore({ client: userPool(url), listenUrl: url });
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
    const onPool = postgresStore({ client: userPool(url) });
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
