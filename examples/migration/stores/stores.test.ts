import { afterAll, beforeAll, describe } from '@jest/globals';
import { Body, Controller, Post, type INestApplication, type Type } from '@nestjs/common';
import { Idempotent, type IdempotencyStore, type IdempotencyOptions } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { usePostgres } from '../../../test/support/postgres/use-postgres.js';
import { useRedis, useRedisClient } from '../../../test/support/redis/use-redis.js';
import { describeSqlite, SqliteFolder } from '../../../test/support/sqlite/sqlite-file.js';
import { Ledger, type Payment } from '../ledger.js';
import { startPayments } from '../payments-app.js';
import { itKeepsFailures, itSwitches } from '../switch.js';
import { inOldStore, OLD_STORE } from './old-store.js';
import { PaymentsController } from './payments.controller.js';

const server = useRedis();
const redis = useRedisClient(server);
const postgres = usePostgres();

interface Move {
  /** Another object for each application, as in processes of their own. */
  readonly from: () => IdempotencyStore;
  readonly to: () => IdempotencyStore | Promise<IdempotencyStore>;
}

/** The same operation, before the move. */
function payments(lease: IdempotencyOptions['lease'] = {}): Type {
  @Controller('payments')
  class Payments {
    constructor(private readonly ledger: Ledger) {}

    @Post()
    @Idempotent({ operation: 'payments.pay', lease })
    pay(@Body() payment: Payment) {
      return this.ledger.charge(payment);
    }
  }
  return Payments;
}

const mistaken = { onTakeover: inOldStore, recoverOn: 'takeover' } as const;

function itMoves({ from, to }: Move): void {
  const apps: INestApplication[] = [];
  const lookedInto: IdempotencyStore[] = [];
  let urls: string[] = [];

  beforeAll(async () => {
    const versions = [
      { controller: payments(), store: from() },
      { controller: PaymentsController, store: await to() },
      { controller: payments(mistaken), store: await to() },
    ];
    for (const { controller, store } of versions) {
      const old = from();
      await old.open();
      lookedInto.push(old);
      const [app, url] = await startPayments({
        controllers: [controller],
        providers: [{ provide: OLD_STORE, useValue: old }],
        platform: 'express',
        ...{ redis, store },
      });
      apps.push(app);
      urls = [...urls, url];
    }
  });
  afterAll(async () => {
    await Promise.all(apps.map((app) => app.close()));
    await Promise.all(lookedInto.map((old) => old.close()));
  });

  const deployment = () => {
    const [before = '', after = '', mistakenUrl = ''] = urls;
    return {
      ...{ before, after, mistaken: mistakenUrl, reused: 422 },
      charges: async (order: string) => Number(await redis.get(`charges:${order}`)),
      open: (order: string) => redis.rpush(`open:${order}`, 1),
    };
  };
  itSwitches(deployment);
  itKeepsFailures(deployment);
}

describe('from memory to Redis', () => {
  const memory = memoryStore();
  itMoves({ from: () => memory, to: () => redisStore({ client: redis, keyPrefix: 'a:' }) });
});

describeSqlite('from SQLite to Redis', () => {
  const folder = new SqliteFolder();
  itMoves({
    from: () => folder.open(),
    to: () => redisStore({ client: redis, keyPrefix: 'b:' }),
  });
  afterAll(() => {
    folder.remove();
  });
});

describe('from Redis to PostgreSQL', () => {
  let url: Promise<string> | undefined;
  const newDatabase = async () => {
    const made = await postgres.newDatabase();
    await migrate({ url: made });
    return made;
  };
  itMoves({
    from: () => redisStore({ client: redis, keyPrefix: 'c:' }),
    to: async () => postgresStore({ url: await (url ??= newDatabase()) }),
  });
});
