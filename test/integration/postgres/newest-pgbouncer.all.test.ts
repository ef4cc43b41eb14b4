import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { fromPg } from 'nestjs-idempotency/pg';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { userPool } from './support/fixture.js';
import { findPgBouncer } from '../../support/postgres/pgbouncer-server.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { unpackServer, type UnpackedServer } from '../../support/provision/unpacked-server.js';
import { START_HOOK_MS } from '../../support/servers/start-server.js';
import {
  bouncedDatabase,
  bouncedStore,
  durableEnough,
  expectBurstIsServed,
  startApp,
} from './support/behind-pgbouncer.js';

const server = usePostgres();
let unpacked: UnpackedServer | undefined;

beforeAll(async () => {
  unpacked = await unpackServer('sid', 'pgbouncer');
  if (unpacked !== undefined) console.log(`PgBouncer ${unpacked.version} of Debian unstable`);
}, 10 * START_HOOK_MS);
afterAll(() => unpacked?.remove());

/** Undefined where the archive cannot be reached, which was reported. */
async function database(settings?: Readonly<Record<string, string | number>>) {
  if (unpacked === undefined) return undefined;
  const program = unpacked.program('usr/sbin/pgbouncer');
  return bouncedDatabase(() => server.newDatabase(), settings, program);
}

describe('Behind the newest PgBouncer in transaction mode, which keeps prepared statements', () => {
  it('the plain URL starts and serves, without the time limits that it refuses', async () => {
    const behind = await database();
    if (behind === undefined) return;
    const { direct, bouncer } = behind;
    const { service, codes } = await startApp(bouncedStore(bouncer, { listenUrl: direct }));
    expect(codes()).toEqual(['postgres_time_limits_rejected', durableEnough]);
    await expectBurstIsServed(service, direct);
    // Each statement kept its name.
    expect(codes()).toHaveLength(2);
  });

  it('with ignore_startup_parameters nothing is refused', async () => {
    const behind = await database({ ignore_startup_parameters: 'statement_timeout,lock_timeout' });
    if (behind === undefined) return;
    const { direct, bouncer } = behind;
    const { service, codes } = await startApp(bouncedStore(bouncer, { listenUrl: direct }));
    await expectBurstIsServed(service, direct);
    expect(codes()).toEqual([durableEnough]);
  });

  it('an application’s own pool serves', async () => {
    const behind = await database();
    if (behind === undefined) return;
    const { direct, bouncer } = behind;
    const client = userPool(bouncer.url);
    const { service, codes } = await startApp(
      postgresStore({ executor: fromPg(client), push: false, deleteExpired: false }),
    );
    await expectBurstIsServed(service, direct);
    expect(codes()).toEqual([durableEnough]);
  });
});

describe('Behind PgBouncer in session mode', () => {
  it.each([
    ['the installed one', () => findPgBouncer()],
    ['the newest one', () => unpacked?.program('usr/sbin/pgbouncer')],
  ])('%s needs no other address for LISTEN', async (_, programOf) => {
    const program = programOf();
    // It was reported.
    if (program === undefined) return;
    const settings = { pool_mode: 'session' };
    const { direct, bouncer } = await bouncedDatabase(
      () => server.newDatabase(),
      settings,
      program,
    );
    const { service, codes } = await startApp(bouncedStore(bouncer));
    await expectBurstIsServed(service, direct);
    expect(codes()).toEqual(['postgres_time_limits_rejected', durableEnough]);
  });
});
