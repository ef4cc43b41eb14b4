import { beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import {
  IdempotencyHealth,
  IdempotencyMeter,
  IdempotencyService,
  IdempotencyStore,
} from 'nestjs-idempotency';
import { type PostgresIdempotencyStore, postgresStore } from 'nestjs-idempotency/postgres';
import { type RedisIdempotencyStore, redisStore } from 'nestjs-idempotency/redis';
import type { Pool } from 'pg';
import { callingApp, type CallingApp } from '../../support/nest/calling-app.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { startPostgres } from '../../support/postgres/postgres-server.js';
import { RedisNode } from '../../support/redis/redis-node.js';
import { scriptCalls } from '../../support/redis/scripts.js';
import { useServer } from '../../support/servers/use-server.js';
import { until } from '../../support/waiting/until.js';

const PROBES = ['read', 'write'] as const;

/** The record with the name of the service. */
const NOTES = 1;

const downOn = (store: string) => ({
  status: 'down',
  store,
  errorType: 'idempotency_store_unavailable',
});

/** The report of a new probe, which has time on a busy machine. */
const probed = ({ nest }: CallingApp, probe: 'read' | 'write', timeoutMs = 5_000) =>
  nest.get(IdempotencyHealth, { strict: false }).check({ probe, timeout: timeoutMs, maxAge: 0 });

const untilUp = (app: CallingApp, probe: 'read' | 'write') =>
  until(async () => (await probed(app, probe)).status === 'up');

/** Several checks at once find it down within their time limit. */
async function expectDown(app: CallingApp, probe: 'read' | 'write', store: string): Promise<void> {
  const reports = await Promise.all([1, 2, 3].map(() => probed(app, probe, 200)));
  for (const report of reports) expect(report).toMatchObject(downOn(store));
}

describe('a health check on PostgreSQL', () => {
  const server = useServer(startPostgres);
  let url: string;
  let store: PostgresIdempotencyStore;

  const observer: Pool = useServer(
    async () => {
      url = await server.newDatabase();
      return openPostgresPool(url);
    },
    (pool) => pool.end(),
  );
  const app: CallingApp = useServer(
    () => {
      store = postgresStore({ url, deleteExpired: false });
      return store.migrate().then(() => callingApp({}, { store }));
    },
    ({ nest }) => nest.close(),
  );

  const count = async (condition: string) => {
    const { rows } = await observer.query<{ count: number }>(
      `SELECT count(*)::integer FROM idempotency_records WHERE ${condition}`,
    );
    return rows[0]!.count;
  };

  it.each(PROBES)('is up: "%s"', async (probe) => {
    expect(await probed(app, probe)).toMatchObject({ status: 'up', store: 'postgresql' });
  });

  it('leaves only expired rows, which the deletion of expired records takes', async () => {
    await probed(app, 'write');
    await until(async () => (await count('expires_at > now()')) === NOTES);
    expect(await count('true')).toBeGreaterThan(NOTES);
    await store.deleteExpired();
    expect(await count('true')).toBe(NOTES);
  });

  it('finds a server that rejects writes by "write", not by "read"', async () => {
    const readOnly = await server.newDatabase();
    const other = postgresStore({ url: readOnly });
    await other.migrate();
    await other.close();
    const name = new URL(readOnly).pathname.slice(1);
    await observer.query(`ALTER DATABASE "${name}" SET default_transaction_read_only = on`);
    const misled = await callingApp({}, { store: postgresStore({ url: readOnly }) });
    try {
      expect(await probed(misled, 'read')).toMatchObject({ status: 'up' });
      expect(await probed(misled, 'write', 200)).toMatchObject(downOn('postgresql'));
    } finally {
      await misled.nest.close();
    }
  });

  it.each(PROBES)(
    'that hangs is down after its time limit, and up again afterwards: "%s"',
    async (probe) => {
      await untilUp(app, probe);
      const { rows } = await observer.query<{ pid: number }>(
        `SELECT pid FROM pg_stat_activity WHERE application_name = 'nestjs-idempotency'`,
      );
      // The postmaster, too: it would open new connections.
      const pids = [...rows.map(({ pid }) => pid), server.pid];
      for (const pid of pids) process.kill(pid, 'SIGSTOP');
      try {
        await expectDown(app, probe, 'postgresql');
      } finally {
        for (const pid of pids) process.kill(pid, 'SIGCONT');
      }
      await untilUp(app, probe);
    },
  );

  it('that is gone is down', async () => {
    await server.stop();
    for (const probe of PROBES) await expectDown(app, probe, 'postgresql');
  });
});

describe('redis', () => {
  const DOWN = downOn('redis');

  const storeAt = ({ url }: RedisNode): RedisIdempotencyStore =>
    redisStore({ url, onConnectionError: () => undefined });

  function useApp(node: RedisNode, options: Parameters<typeof callingApp>[1] = {}): CallingApp {
    return useServer(
      () => callingApp({}, { store: storeAt(node), ...options }),
      ({ nest }) => nest.close(),
    );
  }

  describe('a health check on Redis', () => {
    const node = useServer(() => RedisNode.start({ args: ['--repl-diskless-sync-delay', '0'] }));
    const app = useApp(node);
    const observer = useServer(
      () => new Redis(node.url),
      (client) => client.disconnect(),
    );

    beforeEach(async () => {
      // The scripts are loaded, and the connection is there.
      for (const probe of PROBES) await untilUp(app, probe);
      await until(async () => (await observer.dbsize()) === NOTES);
    });

    it.each([
      ['read', 'one command', 1],
      ['write', 'two commands', 2],
    ] as const)(
      'with "%s" sends %s for all concurrent checks together',
      async (probe, _, count) => {
        const before = await scriptCalls(observer);
        const reports = await Promise.all(Array.from({ length: 20 }, () => probed(app, probe)));
        for (const report of reports)
          expect(report).toMatchObject({ status: 'up', store: 'redis' });
        expect(await scriptCalls(observer)).toBe(before + count);
      },
    );

    it('leaves nothing behind', async () => {
      expect(await probed(app, 'write')).toMatchObject({ status: 'up' });
      await until(async () => (await observer.dbsize()) === NOTES);
    });

    it('finds a full server by "write", not by "read"', async () => {
      await observer.config('SET', 'maxmemory', '1', 'maxmemory-policy', 'noeviction');
      try {
        expect(await probed(app, 'read')).toMatchObject({ status: 'up' });
        expect(await probed(app, 'write')).toMatchObject(DOWN);
      } finally {
        await observer.config('SET', 'maxmemory', '0');
      }
      expect(await probed(app, 'write')).toMatchObject({ status: 'up' });
    });

    describe('of which a replica is asked', () => {
      const replica = useServer(() =>
        RedisNode.start({ args: ['--replicaof', '127.0.0.1', String(node.port)] }),
      );
      const misled = useApp(replica);

      it('finds it by "write", not by "read"', async () => {
        await until(async () => (await replica.info('replication', 'master_link_status')) === 'up');
        expect(await probed(misled, 'read')).toMatchObject({
          status: 'up',
          warnings: expect.arrayContaining(['redis_is_replica']),
        });
        expect(await probed(misled, 'write', 200)).toMatchObject(DOWN);
      });
    });
  });

  describe('a health check while Redis', () => {
    const node = useServer(() => RedisNode.start());
    const app = useApp(node);

    it.each(PROBES)(
      'hangs is down after its time limit, and up again afterwards: "%s"',
      async (probe) => {
        await untilUp(app, probe);
        node.pause();
        try {
          await expectDown(app, probe, 'redis');
        } finally {
          node.resume();
        }
        await untilUp(app, probe);
      },
    );

    it.each(PROBES)('is gone is down, and up again afterwards: "%s"', async (probe) => {
      await untilUp(app, probe);
      await node.kill();
      expect(await probed(app, probe, 200)).toMatchObject(DOWN);
      await node.start();
      await untilUp(app, probe);
    });
  });

  describe('a health check behind an open breaker', () => {
    const node = useServer(() => RedisNode.start());
    const app = useApp(node, {
      breaker: { errorThresholdPercentage: 1, volumeThreshold: 1, probeInterval: 3_600_000 },
      storeErrors: { commandTimeout: 500 },
    });

    it('is down without a command to a server that works again', async () => {
      for (const probe of PROBES) await untilUp(app, probe);
      await node.kill();
      const call = { operation: 'pay', key: 'one', scope: 'alice' };
      const service = app.nest.get(IdempotencyService, { strict: false });
      await expect(service.run(call, () => 1)).rejects.toThrow();
      await until(() => app.events.some(({ type }) => type === 'breaker_opened'));
      await node.start();
      const observer = new Redis(node.url);
      try {
        for (const probe of PROBES) {
          expect(await probed(app, probe)).toMatchObject({ ...DOWN, breaker: 'open' });
        }
        expect(await scriptCalls(observer)).toBe(0);
        const breaker = () =>
          app.nest.get(IdempotencyMeter, { strict: false }).read().store.breaker;
        expect(breaker()).toBe('open');
        // With a new circuit.
        const store = app.nest.get(IdempotencyStore, { strict: false });
        await store.close();
        await store.open();
        expect(breaker()).toBe('closed');
        expect(await probed(app, 'read')).toMatchObject({ status: 'up', breaker: 'closed' });
        await store.close();
      } finally {
        observer.disconnect();
      }
    });
  });
});
