import { readFile } from 'node:fs/promises';
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { Client } from 'pg';
import { startRedis, type RedisServer } from '../../support/redis/redis-server.js';
import { describeWithClock, ServerClock } from '../../support/clocks/server-clock.js';
import { START_HOOK_MS } from '../../support/servers/start-server.js';
import { TalkingProcess } from '../../support/processes/talking-process.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import type { WorkerSettings } from './shipping-worker.js';

type Worker = TalkingProcess<Record<string, unknown>>;

const SHIPPING = new URL('shipping-worker.ts', import.meta.url);

const FENCE_COLUMN = new URL('../../../examples/fencing/fence-column.sql', import.meta.url);

const LEASE_MS = 60_000;

describeWithClock('the fencing token in a PostgreSQL row', () => {
  const postgres = usePostgres();
  let clock: ServerClock;
  let redis: RedisServer | undefined;
  let database: Client | undefined;
  let postgresUrl: string;
  let workers: Worker[] = [];

  beforeAll(async () => {
    clock = new ServerClock();
    redis = await startRedis({ env: clock.env });
    postgresUrl = await postgres.newDatabase();
    database = new Client(postgresUrl);
    await database.connect();
    await database.query('CREATE TABLE shipments (order_id text PRIMARY KEY, label text)');
    await database.query(await readFile(FENCE_COLUMN, 'utf8'));
  }, START_HOOK_MS);

  afterAll(async () => {
    await database?.end();
    await redis?.stop();
    clock.remove();
  });

  afterEach(async () => {
    await Promise.all(workers.map((worker) => worker.kill()));
    workers = [];
  });

  function worker(order: string, label: string, isFenced: boolean): Worker {
    const redisUrl = redis!.url;
    const settings: WorkerSettings = {
      redisUrl,
      postgresUrl,
      order,
      label,
      isFenced,
      leaseMs: LEASE_MS,
    };
    const started: Worker = new TalkingProcess(SHIPPING, settings);
    workers.push(started);
    return started;
  }

  async function shipment(order: string): Promise<unknown> {
    const { rows } = await database!.query(
      'SELECT label, fence::float8 FROM shipments WHERE order_id = $1',
      [order],
    );
    return rows[0];
  }

  /**
   * The first worker begins, and is paused beyond its lease while the carrier prints. The second takes over, writes and
   * responds. Then the first resumes and writes.
   */
  async function pausedBeforeWriting(order: string, isFenced: boolean) {
    await database!.query('INSERT INTO shipments (order_id) VALUES ($1)', [order]);
    const first = worker(order, 'label of the first', isFenced);
    const firstBegan = await first.next();
    first.signal('SIGSTOP');
    clock.pass(LEASE_MS);
    const second = worker(order, 'label of the second', isFenced);
    const secondBegan = await second.next();
    second.goOn();
    const secondWrote = await second.next();
    const secondResponded = await second.next();
    const inBetween = await shipment(order);
    first.goOn();
    first.signal('SIGCONT');
    const firstWrote = await first.next();
    const firstResponded = await first.next();
    expect([firstBegan.began, secondBegan.began]).toEqual(['acquired', 'takeover']);
    expect(secondBegan.fencingToken).toBeGreaterThan(firstBegan.fencingToken as number);
    expect(secondWrote).toEqual({ rowsWritten: 1 });
    expect(inBetween).toEqual({ label: 'label of the second', fence: secondBegan.fencingToken });
    // The record is fenced in any case: both clients get the same label for the key.
    const responded = { responded: { label: 'label of the second', written: true } };
    expect([secondResponded, firstResponded]).toEqual([responded, responded]);
    return { firstWrote, inBetween, afterwards: await shipment(order) };
  }

  it('rejects the late write of an attempt that lost its lease: UPDATE … WHERE fence < $1 changes no row', async () => {
    const { firstWrote, inBetween, afterwards } = await pausedBeforeWriting('a', true);
    expect(firstWrote).toEqual({ rowsWritten: 0 });
    expect(afterwards).toEqual(inBetween);
  });

  it('lets the late write overwrite the reported label without that clause', async () => {
    const { firstWrote, afterwards } = await pausedBeforeWriting('b', false);
    expect(firstWrote).toEqual({ rowsWritten: 1 });
    expect(afterwards).toMatchObject({ label: 'label of the first' });
  });
});
