import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { IdempotencyService, type Recover } from 'nestjs-idempotency';
import type { Pool } from 'pg';
import { callingApp, rejection, type CallingApp } from '../../../test/support/nest/calling-app.js';
import { openPostgresPool } from '../../../test/support/postgres/postgres-pool.js';
import { usePostgres } from '../../../test/support/postgres/use-postgres.js';
import { useRedis, useRedisClient } from '../../../test/support/redis/use-redis.js';
import { nestarcPostgresRecord, OLD_POOL } from './legacy-nestarc-postgres.js';
import { nestarcRedisRecord, OLD_REDIS } from './legacy-nestarc-redis.js';

const SCOPE = 'POST /payments';

interface OldRecord {
  readonly status: 'PROCESSING' | 'COMPLETED';
  readonly body?: unknown;
}

/** The old records, written and read in the form of @nestarc/idempotency 0.4, which is not installed here. */
interface OldStore {
  readonly name: string;
  readonly reader: Recover;
  readonly write: (key: string, record: OldRecord) => Promise<unknown>;
  /** The status of the record that the old package finds. */
  readonly status: (key: string) => Promise<string | undefined>;
}

const payment = (
  onTakeover: Recover,
  key: string,
  recoverOn: 'takeover' | 'always' = 'always',
) => ({ operation: 'payments.pay', key, scope: 'alice', lease: { onTakeover, recoverOn } });

describe('the readers of the old records of @nestarc/idempotency', () => {
  const redis = useRedisClient(useRedis());
  const server = usePostgres();
  let pool: Pool;
  let app: CallingApp;

  beforeAll(async () => {
    pool = openPostgresPool(await server.newDatabase());
    await pool.query(`CREATE TABLE idempotency_records (
      key text PRIMARY KEY, token uuid NOT NULL, fingerprint text,
      status text NOT NULL CHECK (status IN ('PROCESSING', 'COMPLETED')),
      response_code int, response_body text, response_headers jsonb,
      created_at timestamptz NOT NULL DEFAULT now(), expires_at timestamptz NOT NULL)`);
    app = await callingApp({
      providers: [
        { provide: OLD_REDIS, useValue: redis },
        { provide: OLD_POOL, useFactory: () => pool },
      ],
    });
  });
  afterAll(async () => {
    await app.nest.close();
    await pool.end();
  });

  const onRedis: OldStore = {
    name: 'Redis',
    reader: nestarcRedisRecord(SCOPE),
    write: (key, { status, body }) =>
      redis.hset(`idempotency:${SCOPE}::${key}`, {
        token: randomUUID(),
        payload: JSON.stringify({
          status,
          statusCode: 201,
          responseBody: body === undefined ? undefined : JSON.stringify(body),
        }),
      }),
    status: async (key) => {
      const { token, payload } = await redis.hgetall(`idempotency:${SCOPE}::${key}`);
      if (token === undefined || payload === undefined) return undefined;
      return (JSON.parse(payload) as { status: string }).status;
    },
  };

  const onPostgres: OldStore = {
    name: 'PostgreSQL',
    reader: nestarcPostgresRecord(SCOPE),
    write: (key, { status, body }) =>
      pool.query(
        `INSERT INTO idempotency_records (key, token, status, response_code, response_body, expires_at)
         VALUES ($1, $2, $3, 201, $4, now() + interval '1 day')`,
        [
          `${SCOPE}::${key}`,
          randomUUID(),
          status,
          body === undefined ? null : JSON.stringify(body),
        ],
      ),
    status: async (key) => {
      const { rows } = await pool.query<{ status: string }>(
        'SELECT status FROM idempotency_records WHERE key = $1 AND expires_at > now()',
        [`${SCOPE}::${key}`],
      );
      return rows[0]?.status;
    },
  };

  describe.each([onRedis, onPostgres])('on $name', ({ reader, write, status }) => {
    let effects = 0;

    const pay = (key: string, recoverOn: 'takeover' | 'always' = 'always') =>
      app.nest.get(IdempotencyService).run(payment(reader, key, recoverOn), () => {
        effects += 1;
        return { charge: effects };
      });

    it('finds what completed, and nothing runs again', async () => {
      effects = 0;
      const [key, empty] = [randomUUID(), randomUUID()];
      await write(key, { status: 'COMPLETED', body: { charge: 'old' } });
      await write(empty, { status: 'COMPLETED' });
      for (const time of ['first', 'replay']) {
        expect({ time, value: await pay(key) }).toEqual({ time, value: { charge: 'old' } });
        expect({ time, value: await pay(empty) }).toEqual({ time, value: undefined });
      }
      expect(effects).toBe(0);
    });

    it("runs again with the planted mistake recoverOn: 'takeover'", async () => {
      effects = 0;
      const key = randomUUID();
      await write(key, { status: 'COMPLETED', body: { charge: 'old' } });
      expect(await pay(key, 'takeover')).toEqual({ charge: 1 });
    });

    it('rejects what is in progress there, and asks again', async () => {
      effects = 0;
      const key = randomUUID();
      await write(key, { status: 'PROCESSING' });
      for (const time of [1, 2]) {
        const error = await rejection(pay(key));
        expect({ time, status: error.getStatus() }).toEqual({ time, status: 409 });
      }
      expect(effects).toBe(0);
    });

    it('reserves a new key, which the old package then finds in progress', async () => {
      effects = 0;
      const key = randomUUID();
      expect(await pay(key)).toEqual({ charge: 1 });
      expect(await status(key)).toBe('PROCESSING');
      expect(await pay(key)).toEqual({ charge: 1 });
      expect(effects).toBe(1);
    });

    it('lets a failed operation run again, in spite of its reservation', async () => {
      const key = randomUUID();
      const call = payment(reader, key);
      const service = app.nest.get(IdempotencyService);
      const failing = service.run(call, () => {
        throw new Error('planned');
      });
      await expect(failing).rejects.toThrow('planned');
      expect(await service.run(call, () => 'done')).toBe('done');
    });
  });

  it('on PostgreSQL reserves a key whose old record has expired', async () => {
    const key = randomUUID();
    await onPostgres.write(key, { status: 'COMPLETED', body: 'old' });
    await pool.query("UPDATE idempotency_records SET expires_at = now() - interval '1 second'");
    const call = payment(onPostgres.reader, key);
    expect(await app.nest.get(IdempotencyService).run(call, () => 'new')).toBe('new');
    expect(await onPostgres.status(key)).toBe('PROCESSING');
  });
});
