import { describe, expect, it } from '@jest/globals';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { rejection } from '../../support/nest/calling-app.js';
import { findPgBouncer } from '../../support/postgres/pgbouncer-server.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { userPool } from './support/fixture.js';
import {
  bouncedDatabase,
  bouncedStore,
  durableEnough,
  expectBurstIsServed,
  startApp,
} from './support/behind-pgbouncer.js';

const server = usePostgres();
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
        postgresStore({ client, deleteExpired: false }),
      );
      expect(codes()).toEqual([durableEnough]);
      await expectBurstIsServed(service, direct);
      expect(codes()).toEqual([durableEnough, 'postgres_statements_unnamed']);
      expect(log.own.at(-1)).toContain('Set preparedStatements: false');
    });

    it('the store’s own pool does, without the time limits that PgBouncer refuses', async () => {
      const { direct, bouncer } = await database();
      const { service, log, codes } = await startApp(bouncedStore(bouncer, { listenUrl: direct }));
      expect(codes()).toEqual(['postgres_time_limits_rejected', durableEnough]);
      expect(log.own[0]).toMatch(/ALTER ROLE .* ignore_startup_parameters/);
      await expectBurstIsServed(service, direct);
    });

    it('nothing is refused with ignore_startup_parameters, nor without prepared statements', async () => {
      const { direct, bouncer } = await database({
        ignore_startup_parameters: 'statement_timeout,lock_timeout',
      });
      for (const options of [{}, { preparedStatements: false }]) {
        const { codes } = await startApp(bouncedStore(bouncer, { listenUrl: direct, ...options }));
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
