import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { fromPg, pgUnitOfWork } from 'nestjs-idempotency/pg';
import { postgresBlobs, type PostgresBlobsOptions } from 'nestjs-idempotency/postgres';
import { BlobUnavailableError } from 'nestjs-idempotency/store';
import { describeBlobStoreConformance } from 'nestjs-idempotency/testing/store';
import type { Pool } from 'pg';
import { sqlOf } from '../../support/internals/cli.js';
import { afterTest } from '../../support/jest/after-test.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { until } from '../../support/waiting/until.js';
import { never, newName, put, sourceOf } from './support/blobs.js';

const KIB = 1024;
const MIB = 1024 * KIB;

const server = usePostgres();
let url: string;

beforeAll(async () => {
  url = await server.newDatabase();
  const blobs = postgresBlobs({ url });
  expect(await blobs.migrate()).toEqual([1]);
  expect(await blobs.migrate()).toEqual([]);
  await blobs.close();
});

function storeOf(options: Partial<PostgresBlobsOptions> = {}) {
  const store = postgresBlobs({ url, ...options } as PostgresBlobsOptions);
  afterTest(() => store.close());
  return store;
}

describeBlobStoreConformance(
  { describe, it },
  {
    name: 'postgresBlobs',
    create: () => {
      const store = postgresBlobs({ url });
      return { store, dispose: () => store.close() };
    },
  },
);

describe('postgresBlobs', () => {
  let pool: Pool;

  beforeEach(async () => {
    pool = openPostgresPool(url);
    afterTest(() => pool.end());
    await pool.query('TRUNCATE idempotency_blobs');
  });

  const rows = async () =>
    (
      await pool.query<{ name: string; part: number; bytes: number; hours: number }>(
        `SELECT name, part, octet_length(bytes) AS bytes,
           round(extract(epoch FROM expires_at - now()) / 3600)::integer AS hours
         FROM idempotency_blobs ORDER BY name, part`,
      )
    ).rows;

  it('keeps parts of chunkBytes until the blob expires, by the clock of the server', async () => {
    const store = storeOf({ chunkBytes: 100_000 });
    // Which the servers of tests are not.
    expect((await store.open()).map(({ code }) => code)).toEqual(['postgres_not_durable']);
    const name = newName();
    const expiresAt = new Date(Date.now() + 48 * 3_600_000);
    await put(store, name, randomBytes(250_000), { expiresAt });
    const stored = (part: number, bytes: number) => ({ name, part, bytes, hours: 48 });
    expect(await rows()).toEqual([stored(0, 100_000), stored(1, 100_000), stored(2, 50_000)]);
  });

  it('reads what was stored with another size of parts', async () => {
    const [name, bytes] = [newName(), randomBytes(250_000)];
    await put(storeOf({ chunkBytes: 100_000 }), name, bytes);
    const stream = await storeOf({ chunkBytes: 4_096 }).get(name, {
      offset: 123_456,
      signal: never,
    });
    expect((await buffer(stream!)).equals(bytes.subarray(123_456))).toBe(true);
  });

  it('shows nothing of an upload, whose parts expire within a day if it never ends', async () => {
    const ended = new AbortController();
    const [store, name] = [storeOf(), newName(365 * 86_400_000)];
    const putting = put(store, name, sourceOf(randomBytes(MIB), 'wait'), {
      expiresAt: new Date(Date.now() + 365 * 86_400_000),
      signal: ended.signal,
    });
    const rejected = expect(putting).rejects.toThrow('ended');
    await until(async () => (await rows()).length === 4);
    for (const row of await rows()) expect(row).toMatchObject({ hours: 24 });
    expect(await store.get(name, { signal: never })).toBeUndefined();
    ended.abort(new Error('ended'));
    await rejected;
    expect(await rows()).toEqual([]);
  });

  it('takes no more of its source than a part, while the server does not reply', async () => {
    const holder = await pool.connect();
    await holder.query('BEGIN; LOCK TABLE idempotency_blobs IN ACCESS EXCLUSIVE MODE');
    const source = sourceOf(randomBytes(20 * MIB));
    const putting = put(storeOf(), newName(), source);
    await until(() => source.pulled >= 256 * KIB);
    await delay(200);
    expect(source.pulled).toBeLessThan(MIB);
    await holder.query('COMMIT');
    holder.release();
    await putting;
  });

  it('fails the stream of a blob that is deleted while it is read', async () => {
    const [store, name] = [storeOf(), newName()];
    await put(store, name, randomBytes(4 * MIB));
    const stream = await store.get(name, { signal: never });
    await once(stream!, 'readable');
    await store.delete(name);
    await expect(buffer(stream!)).rejects.toThrow('the blob was deleted while it was read');
  });

  it('counts an expired blob as absent, and deletes it and no other', async () => {
    const store = storeOf({ deleteExpired: { interval: '100ms' } });
    const [expired, later] = [newName(), newName()];
    await put(store, expired, randomBytes(600_000), { expiresAt: new Date() });
    await put(store, later, randomBytes(10));
    expect(await store.get(expired, { signal: never })).toBeUndefined();
    expect((await rows()).length).toBe(4);
    await store.open();
    await until(async () => (await rows()).length === 1);
    (await store.get(later, { signal: never }))!.destroy();
  });

  describe('in a transaction', () => {
    const work = <Result>(run: (blobs: ReturnType<typeof storeOf>) => Promise<Result>) =>
      pgUnitOfWork(pool).run({ isolation: undefined, timeoutMs: 10_000 }, (transaction) =>
        run(storeOf().inTransaction(transaction) as never),
      );

    it('stores a blob with the commit, and shows it to nobody else before', async () => {
      const [name, bytes] = [newName(), randomBytes(600_000)];
      await work(async (blobs) => {
        await put(blobs, name, bytes);
        const own = await blobs.get(name, { signal: never });
        expect((await buffer(own!)).equals(bytes)).toBe(true);
        expect(await storeOf().get(name, { signal: never })).toBeUndefined();
      });
      const stored = await storeOf().get(name, { signal: never });
      expect((await buffer(stored!)).equals(bytes)).toBe(true);
    });

    it('leaves nothing of a blob whose transaction is rolled back', async () => {
      const rolledBack = work(async (blobs) => {
        await put(blobs, newName(), randomBytes(600_000));
        throw new Error('the business failed');
      });
      await expect(rolledBack).rejects.toThrow('the business failed');
      expect(await rows()).toEqual([]);
    });

    it('goes on, and commits, without a blob whose source failed', async () => {
      const failure = new Error('the handler failed');
      await work(async (blobs) => {
        const source = sourceOf(randomBytes(600_000), 'wait');
        const rejected = expect(put(blobs, newName(), source)).rejects.toBe(failure);
        await until(() => source.pulled === 600_000);
        source.destroy(failure);
        await rejected;
        await put(blobs, newName(), randomBytes(10));
      });
      expect(await rows()).toHaveLength(1);
    });

    it('refuses one that speaks no SQL', () => {
      expect(() => storeOf().inTransaction({ handle: {} })).toThrow('have no query()');
    });

    it.each(['without a table', 'with a table of its own'])(
      'refuses one of another database, %s: its blobs would not be found',
      async (which) => {
        const elsewhere = await server.newDatabase();
        const theirs = storeOf({ url: elsewhere });
        if (which === 'with a table of its own') await theirs.migrate();
        const other = openPostgresPool(elsewhere);
        afterTest(() => other.end());
        const putting = pgUnitOfWork(other).run(
          { isolation: undefined, timeoutMs: 10_000 },
          (transaction) => put(storeOf().inTransaction(transaction), newName(), randomBytes(10)),
        );
        await expect(putting).rejects.toMatchObject({
          code: 'idempotency_store_misconfigured',
          message: expect.stringContaining('use different databases'),
        });
      },
    );

    it('refuses one whose database has the name and the table of its own, but was created apart', async () => {
      const restored = await server.newDatabase();
      const blobs = storeOf({ url: restored });
      await blobs.migrate();
      // As another server's database of the same name.
      const database = new URL(url).pathname.slice(1);
      const text = (each: string) => each.replace('current_database()', `'${database}'::text`);
      const other = openPostgresPool(restored);
      afterTest(() => other.end());
      const putting = pgUnitOfWork(other).run(
        { isolation: undefined, timeoutMs: 10_000 },
        (transaction) => {
          const query = (each: string, values: any) => transaction.query(text(each), values);
          return put(
            storeOf().inTransaction({ ...transaction, query } as never),
            newName(),
            randomBytes(10),
          );
        },
      );
      await expect(putting).rejects.toThrow('use different databases');
    });

    it("sends nothing more once it is given up: the connection may be another request's", async () => {
      const ended = new AbortController();
      const texts: string[] = [];
      let isOver = false;
      const late = work(async () => undefined).then(() =>
        pgUnitOfWork(pool).run({ isolation: undefined, timeoutMs: 10_000 }, async (transaction) => {
          const query = (each: string, values: any) => {
            if (isOver) texts.push(each);
            return transaction.query(each, values);
          };
          const source = sourceOf(randomBytes(MIB), 'wait');
          const blobs = storeOf().inTransaction({ ...transaction, query } as never);
          const putting = put(blobs, newName(), source, { signal: ended.signal });
          const rejected = expect(putting).rejects.toThrow('given up');
          await until(() => source.pulled === MIB);
          isOver = true;
          ended.abort(new Error('given up'));
          await rejected;
        }),
      );
      await late;
      expect(texts).toEqual([]);
      expect(await rows()).not.toEqual([]);
    });
  });

  describe('reports', () => {
    it('missing migrations, with the command to run: the start stops', async () => {
      const store = storeOf({ schema: 'shop' });
      await expect(store.open()).rejects.toMatchObject({
        code: 'idempotency_store_misconfigured',
        message: expect.stringContaining(
          '"shop"."idempotency_blobs": 1 (blobs). Run them: await store.migrate(), or npx nestjs-idempotency migrate --blobs --schema shop --table idempotency_blobs',
        ),
      });
      const name = newName();
      await expect(store.get(name, { signal: never })).rejects.toThrow(BlobUnavailableError);
      await expect(put(store, name, randomBytes(10))).rejects.toThrow(BlobUnavailableError);
      await expect(store.delete(name)).rejects.toThrow(BlobUnavailableError);
    });

    it('a server that it cannot reach as unavailable, not as a missing blob', async () => {
      const store = storeOf({ url: 'postgres://127.0.0.1:1/none' });
      expect(await store.open()).toMatchObject([{ code: 'postgres_unreachable', isOutage: true }]);
      await expect(store.get(newName(), { signal: never })).rejects.toThrow(BlobUnavailableError);
    }, 60_000);

    it('options that it does not know, and connections that are none or two', () => {
      expect(() => storeOf({ chunk: 1 } as never)).toThrow('"chunk" is not an option');
      expect(() => storeOf({ chunkBytes: 1 })).toThrow('"chunkBytes"');
      expect(() => storeOf({ table: '' })).toThrow('postgresBlobs: The option "table"');
      expect(() => storeOf({ executor: fromPg(pool) })).toThrow('leave out url');
      expect(() => postgresBlobs({})).toThrow('one of executor, url, connection');
    });
  });
});

it('The migrations of the blobs are printed apart from those of the records', async () => {
  const sql = await sqlOf(['--blobs', '--schema', 'shop']);
  expect(sql).toContain('CREATE TABLE "shop"."idempotency_blobs" (');
  expect(sql).toContain('INSERT INTO "shop"."idempotency_blobs_migrations" (id, name) VALUES (1');
  expect(sql).not.toContain('idempotency_records');
  expect(await sqlOf([])).not.toContain('idempotency_blobs');
  await expect(sqlOf(['--blobs', '--from', '2'])).rejects.toThrow('--from must be 1 to 1');
});
