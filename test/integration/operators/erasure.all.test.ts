import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { Cluster } from 'ioredis';
import {
  IdempotencyRecords,
  IdempotencyService,
  staticKeys,
  type IdempotencyStore,
} from 'nestjs-idempotency';
import { PostgresIdempotencyStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { afterTest } from '../../support/jest/after-test.js';
import { callingApp, rejection } from '../../support/nest/calling-app.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { RedisCluster } from '../../support/redis/redis-cluster.js';
import { useServer } from '../../support/servers/use-server.js';
import { SERVICE } from '../../support/stores/named-for.js';

const PRINCIPALS = 1_000;
const RECORDS = 100;
const AT_ONCE = 50;
const TIMEOUT_MS = 1_200_000;
const ERASED = 'principal-500';
/** So that the test can read what is left. */
const PLAIN = { encryption: false };
/** What its outcomes contain, as text, and as PostgreSQL shows bytes. */
const OUTCOMES = [ERASED, Buffer.from(ERASED).toString('hex')];
/** The beginning of its name is that of others, and the other way round. */
const SIMILAR = ['principal-50', 'principal-5000'];

const SECRETS = staticKeys({
  current: 'k',
  keys: { k: Buffer.alloc(32), names: Buffer.alloc(32, 1) },
  digestKeys: ['names'],
});

interface Place {
  readonly store: IdempotencyStore;
  /** Name and bytes of each record, read without the store. */
  readonly scan: () => Promise<(readonly [name: string, bytes: Buffer])[]>;
}

const cluster = useServer(() => RedisCluster.start({ replicas: 0 }));
const postgres = usePostgres();

async function onCluster(): Promise<Place> {
  const client = new Cluster(cluster.addresses);
  afterTest(() => client.disconnect());
  const scan = async () => {
    const all: [string, Buffer][] = [];
    for (const node of client.nodes('master')) {
      let cursor = '0';
      do {
        const [next, names] = await node.scan(cursor, 'MATCH', 'idem:1:*', 'COUNT', 5_000);
        const read = names.map(async (name): Promise<[string, Buffer]> => {
          return [name.slice('idem:1:'.length), (await node.getBuffer(name))!];
        });
        all.push(...(await Promise.all(read)));
        cursor = next;
      } while (cursor !== '0');
    }
    return all.filter(([name]) => name.length === 43);
  };
  return Promise.resolve({ store: redisStore({ client }), scan });
}

async function onPostgres(): Promise<Place> {
  const url = await postgres.newDatabase();
  const pool = openPostgresPool(url, { options: '-c synchronous_commit=off' });
  afterTest(() => pool.end());
  const store = new PostgresIdempotencyStore({ client: pool });
  await store.migrate();
  // The store deletes what has expired by and by.
  const scan = async () => {
    const { rows } = await pool.query<{ key: Buffer; row: string }>(
      'SELECT record_key AS key, record::text AS row FROM idempotency_records AS record WHERE octet_length(record_key) = 32 AND expires_at > now()',
    );
    return rows.map(({ key, row }) => [key.toString('base64url'), Buffer.from(row)] as const);
  };
  return { store, scan };
}

describe.each([
  ['Redis Cluster', onCluster],
  ['PostgreSQL', onPostgres],
])('Of 100,000 records of a thousand callers on %s', (_, open) => {
  it(
    "exactly one caller's are redacted, then deleted, and no redacted operation runs again",
    async () => {
      const { store, scan } = await open();
      const { nest } = await callingApp(
        {},
        {
          store,
          service: SERVICE,
          secrets: SECRETS,
          protectDigests: true,
          storeErrors: { commandTimeout: 10_000, saveTimeout: 10_000 },
        },
      );
      afterTest(() => nest.close());
      const service = nest.get(IdempotencyService, { strict: false });
      const records = nest.get(IdempotencyRecords, { strict: false });
      let ran = 0;
      const call = (scope: string, key: string) =>
        service.run({ operation: 'pay', key, scope, outcome: PLAIN }, () => {
          ran += 1;
          return `${key} of ${scope}`;
        });
      const callers = [
        ...Array.from({ length: PRINCIPALS }, (_each, at) => `principal-${String(at)}`),
        ...SIMILAR.slice(1),
      ];
      const calls = callers.flatMap((scope) =>
        Array.from({ length: RECORDS }, (_each, at) => [scope, `k-${String(at)}`] as const),
      );
      const left = calls.values();
      const worker = async () => {
        for (const each of left) await call(...each);
      };
      await Promise.all(Array.from({ length: AT_ONCE }, worker));
      expect(ran).toBe(calls.length);

      const own = new Set<string>();
      for (let at = 0; at < RECORDS; at += 1) {
        const query = { key: `k-${String(at)}`, scope: ERASED, operation: 'pay' };
        for (const { recordKey } of await records.find(query)) own.add(recordKey);
      }
      expect(own.size).toBe(RECORDS);
      /** Of the others, and which of its own there are. */
      const seen = async () => {
        const all = await scan();
        const others = all.filter(([name]) => !own.has(name));
        const hash = createHash('sha256');
        for (const [name, bytes] of others.sort(([one], [other]) => (one < other ? -1 : 1))) {
          hash.update(`${name} ${String(bytes.length)} `).update(bytes);
        }
        return {
          others: others.length,
          digest: hash.digest('hex'),
          own: all.length - others.length,
          hasOutcome: all.some(
            ([name, bytes]) => own.has(name) && OUTCOMES.some((text) => bytes.includes(text)),
          ),
        };
      };
      const before = await seen();
      expect(before).toMatchObject({
        others: calls.length - RECORDS,
        own: RECORDS,
        hasOutcome: true,
      });
      const who = { actor: 'mia', reason: 'asked to be forgotten' };
      const all = { erased: RECORDS, inProgress: 0, left: 0, bodiesLeft: 0 };

      expect(await records.erase(ERASED, { ...who, mode: 'redact' })).toEqual(all);
      expect(await seen()).toEqual({ ...before, hasOutcome: false });
      for (let at = 0; at < RECORDS; at += 1) {
        expect(await rejection(call(ERASED, `k-${String(at)}`))).toMatchObject({
          code: 'idempotency_response_not_kept',
        });
      }
      expect(ran).toBe(calls.length);
      for (const scope of SIMILAR) expect(await call(scope, 'k-1')).toBe(`k-1 of ${scope}`);

      const deleting = { ...who, mode: 'delete' as const, evenIfRunning: true };
      expect(await records.erase(ERASED, deleting)).toEqual(all);
      expect(await seen()).toEqual({ ...before, own: 0, hasOutcome: false });
      expect(ran).toBe(calls.length);
    },
    TIMEOUT_MS,
  );
});
