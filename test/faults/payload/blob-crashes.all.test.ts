import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { migrate, postgresBlobs } from 'nestjs-idempotency/postgres';
import type { Pool } from 'pg';
import { CALLER } from '../../../lab/faults/client.js';
import { createEffectsTable, readEffects } from '../../../lab/faults/effects-table.js';
import { CUT_OFF } from '../../../lab/faults/expectations.js';
import { recordKeyOf } from '../../../lab/faults/extra-executions.js';
import { Lab, type StartOptions } from '../../../lab/faults/lab.js';
import type { LabWorker } from '../../../lab/faults/lab-worker.js';
import { judge } from '../../../lab/faults/oracle.js';
import type { EffectRequest } from '../../../lab/faults/worker/effects.controller.js';
import type { Point } from '../../../lab/faults/worker/mishap.js';
import { CALLER_HEADER } from '../../../lab/faults/worker/settings.js';
import { describeWithClock, ServerClock } from '../../support/clocks/server-clock.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { sharedDatabase } from '../../support/postgres/use-postgres.js';
import { startRedis, type RedisServer } from '../../support/redis/redis-server.js';
import { until } from '../../support/waiting/until.js';
import { folderPlace } from './support/blob-places.js';
import { ABOVE, isWhole, keysWithOtherBytes, LARGE, WITHOUT_BODY } from './support/large-bodies.js';

const LEASE_MS = 60_000;
const LIMIT_MS = 30_000;
const OUTCOME = { offload: { aboveBytes: ABOVE } };
/** More than the sockets of a client that does not read take in. */
const HUGE = 24_000_000;
/** What is held in memory of a stream. */
const MAX_BYTES = 100_000;
const STREAMED = 3_000_000;

const ALL_POINTS = ['before_put', 'in_put', 'after_put', 'before_complete'] as const;
/** The last but one leaves a part of a body, and the last a whole one. */
const POINTS = isTestAll ? ALL_POINTS : (['in_put', 'after_put'] as const);

type Delivery = 'stored-first' | 'hold-last';

const ALL_STREAMED = (['in_put', 'before_complete', 'after_complete'] as const).flatMap(
  (point): [Point, Delivery][] => [
    [point, 'stored-first'],
    [point, 'hold-last'],
  ],
);
/** Each delivery once: in its put, and after its record. */
const STREAMED_CRASHES = isTestAll ? ALL_STREAMED : [ALL_STREAMED[0]!, ALL_STREAMED.at(-1)!];

const crashAt = (point: Point) => ({ point, action: { kind: 'crash' } }) as const;

describeWithClock('A worker that dies by kill -9 with a large body', () => {
  let clock: ServerClock;
  let redis: RedisServer;
  let lab: Lab;
  const place = folderPlace();
  const survivors = new Map<'run' | 'reject', LabWorker>();

  beforeAll(async () => {
    clock = new ServerClock();
    redis = await startRedis({ env: clock.env });
    lab = await Lab.set();
    for (const onTakeover of ['run', 'reject'] as const) {
      survivors.set(onTakeover, await start(onTakeover));
    }
  }, 120_000);

  afterAll(async () => {
    await lab.clear();
    await redis.stop();
    clock.remove();
    await place.stop();
  });

  function start(
    onTakeover: 'run' | 'reject',
    delivery: Delivery = 'stored-first',
  ): Promise<LabWorker> {
    const options: StartOptions['options'] = {
      lease: { duration: LEASE_MS, onTakeover },
      outcome: { offload: { ...OUTCOME.offload, delivery }, maxBytes: MAX_BYTES },
    };
    return lab.start({ kind: 'redis', url: redis.url }, { blobs: place.settings, options });
  }

  /** It dies at this point of the key's first attempt; then its lease is over. */
  async function crash(
    point: Point,
    key: string,
    onTakeover: 'run' | 'reject',
    body: EffectRequest = { bytes: LARGE },
    delivery?: Delivery,
  ) {
    const victim = await start(onTakeover, delivery);
    const lost = await lab.client.send(victim.url, key, {
      body,
      mishap: crashAt(point),
    });
    expect(lost).toMatchObject({ error: 'ECONNRESET' });
    await victim.untilExit();
    const survivor = survivors.get(onTakeover)!;
    expect(await ask(survivor, key, body)).toMatchObject(
      point === 'after_complete'
        ? { status: 201, replayed: true }
        : { status: 409, code: 'idempotency_in_progress' },
    );
    clock.pass(LEASE_MS);
    return survivor;
  }

  const ask = (worker: LabWorker, key: string, body: EffectRequest = { bytes: LARGE }) =>
    lab.client.send(worker.url, key, { body });

  it.each(STREAMED_CRASHES)(
    'at the point %s with a body that is streamed, %s, leaves its effect, which is never repeated',
    async (point, how) => {
      const key = `streamed-${point}-${how}`;
      const body = { bytes: STREAMED, isStreamed: true };
      const survivor = await crash(point, key, 'reject', body, how);
      const response = await ask(survivor, key, body);
      if (point === 'after_complete') expect(isWhole(response, STREAMED)).toBe(true);
      else expect(response).toMatchObject({ status: 409, code: 'idempotency_outcome_unknown' });
      expect(lab.effects(key)).toHaveLength(1);
    },
  );

  it.each(POINTS)(
    'at the point %s leaves its effect, which onTakeover: "reject" never repeats',
    async (point) => {
      const key = `reject-${point}`;
      const survivor = await crash(point, key, 'reject');
      const response = await ask(survivor, key);
      expect(response).toMatchObject({ status: 409, code: 'idempotency_outcome_unknown' });
      expect(lab.effects(key)).toHaveLength(1);
    },
  );

  // What its put has left is no outcome.
  it.each(POINTS.slice(-1))(
    'at the point %s leaves its effect, which a takeover repeats, and is reported',
    async (point) => {
      const key = `run-${point}`;
      const survivor = await crash(point, key, 'run');
      const response = await ask(survivor, key);
      expect([isWhole(response), response.replayed]).toEqual([true, false]);
      const replay = await ask(survivor, key);
      expect(replay).toMatchObject({ replayed: true, execution: response.execution });
      expect(isWhole(replay)).toBe(true);
      expect(lab.effects(key)).toHaveLength(2);
    },
  );

  it('after complete, and before the first byte, leaves an outcome that is replayed', async () => {
    const key = 'after_complete';
    const survivor = await crash('after_complete', key, 'run');
    const replay = await ask(survivor, key);
    expect(replay).toMatchObject({ status: 201, replayed: true });
    expect(isWhole(replay)).toBe(true);
    expect(lab.effects(key)).toHaveLength(1);
  });

  /** A client that has a beginning of the response, and reads no further until its worker is dead. */
  async function begun(victim: LabWorker, key: string, body: EffectRequest) {
    const sent = request(`${victim.url}/effects`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'idempotency-key': key,
        [CALLER_HEADER]: CALLER,
      },
    });
    sent.end(JSON.stringify(body));
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    let bytes = 0;
    const broken = new Promise((resolve) => response.once('error', resolve));
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      response.pause();
    });
    await once(response, 'data');
    return async () => {
      await lab.kill(victim);
      response.on('data', () => response.resume()).resume();
      expect(await broken).toMatchObject({ code: 'ECONNRESET' });
      expect(bytes).toBeLessThan(HUGE);
    };
  }

  it.each<[boolean, Delivery]>([
    [false, 'stored-first'],
    [true, 'stored-first'],
    [true, 'hold-last'],
  ])(
    'while it sends leaves a client that knows it, and an outcome that is replayed; streamed: %s, %s',
    async (isStreamed, delivery) => {
      const key = `sending-${isStreamed}-${delivery}`;
      const body = { bytes: HUGE, isStreamed };
      const kill = await begun(await start('run', delivery), key, body);
      const survivor = survivors.get('run')!;
      // Held last, it is sent before it is stored.
      await until(async () => (await ask(survivor, key, body)).status === 201, LIMIT_MS);
      await kill();
      const replay = await ask(survivor, key, body);
      expect(replay).toMatchObject({ status: 201, replayed: true });
      expect(isWhole(replay, HUGE)).toBe(true);
      expect(lab.effects(key)).toHaveLength(1);
    },
  );

  it('while it sends what is not stored yet leaves a client that knows it, and no second effect', async () => {
    const key = 'sending-unstored';
    const body = { bytes: HUGE, isStreamed: true };
    const kill = await begun(await start('reject', 'hold-last'), key, body);
    await kill();
    clock.pass(LEASE_MS);
    // The record may just have been written.
    const response = await ask(survivors.get('reject')!, key, body);
    if (response.status !== 201) {
      expect(response).toMatchObject({ status: 409, code: 'idempotency_outcome_unknown' });
    } else expect(isWhole(response, HUGE)).toBe(true);
    expect(lab.effects(key)).toHaveLength(1);
  });

  it('leaves nothing that was not reported, and no client with other bytes than those of its execution', () => {
    const { objections } = lab.judge({
      ...WITHOUT_BODY,
      outages: false,
      extraExecutions: 'reported to the second',
      otherResponses: [...WITHOUT_BODY.otherResponses, '409 idempotency_outcome_unknown'],
    });
    expect(objections).toEqual([]);
    expect(keysWithOtherBytes(lab).filter((key) => !/^(sending|streamed)-/.test(key))).toEqual([]);
  });
});

describe('A transactional worker that dies by kill -9 with a large body', () => {
  const points = isTestAll
    ? ([...ALL_POINTS.slice(0, 3), 'before_commit', 'in_commit', 'after_commit'] as const)
    : (['in_put', 'after_put'] as const);
  let url: string;
  let pool: Pool;
  let lab: Lab;
  let survivor: LabWorker;

  beforeAll(async () => {
    url = await sharedDatabase();
    await migrate({ url });
    const blobs = postgresBlobs({ url });
    await blobs.migrate();
    await blobs.close();
    pool = openPostgresPool(url);
    await createEffectsTable(pool);
    lab = await Lab.set();
    survivor = await start();
  }, 120_000);

  afterAll(async () => {
    await lab.clear();
    await pool.end();
  });

  function start(): Promise<LabWorker> {
    return lab.start(
      { kind: 'postgres', url },
      {
        transactional: true,
        blobs: { kind: 'postgres', url },
        options: { lease: { duration: LEASE_MS }, outcome: OUTCOME },
      },
    );
  }

  it.each(points)('at the point %s: one effect, and each client gets its bytes', async (point) => {
    const victim = await start();
    const lost = await lab.client.send(victim.url, point, {
      body: { bytes: LARGE },
      mishap: crashAt(point),
    });
    expect(lost).toMatchObject({ error: 'ECONNRESET' });
    await victim.untilExit();
    await pool.query(
      `UPDATE idempotency_records SET lease_until = lease_until - $1 * interval '1 ms' WHERE record_key = $2`,
      [LEASE_MS, Buffer.from(recordKeyOf(point), 'base64url')],
    );
    const response = await lab.client.ask(() => [survivor.url], point, {
      limitMs: LIMIT_MS,
      body: { bytes: LARGE },
    });
    expect(isWhole(response)).toBe(true);
    const effects = (await readEffects(pool)).filter(({ key }) => key === point);
    expect(effects).toMatchObject([{ execution: response.execution }]);
  });

  it('leaves uploads that expire by their age, and nothing else', async () => {
    const { rows } = await pool.query<{ name: string; hours: number }>(
      `SELECT name, round(extract(epoch FROM max(expires_at) - now()) / 3600)::integer AS hours
       FROM idempotency_blobs GROUP BY name`,
    );
    const uploads = rows.filter(({ name }) => name.startsWith('upload/'));
    expect(uploads.length).toBeGreaterThan(0);
    for (const { hours } of uploads) expect(hours).toBe(24);

    const uploadsLeft = async () =>
      (await pool.query(`SELECT FROM idempotency_blobs WHERE name LIKE 'upload/%'`)).rowCount;
    await pool.query(`UPDATE idempotency_blobs SET expires_at = now() WHERE name LIKE 'upload/%'`);
    const cleaner = postgresBlobs({ url, deleteExpired: { interval: '100ms' } });
    await cleaner.open();
    try {
      await until(async () => (await uploadsLeft()) === 0);
    } finally {
      await cleaner.close();
    }
    const left = await pool.query('SELECT DISTINCT name FROM idempotency_blobs');
    expect(left.rows).toHaveLength(rows.length - uploads.length);
  });

  it('leaves one effect for each key', async () => {
    const { objections, figures } = judge(
      { ...lab.evidence(), ledger: await readEffects(pool) },
      { ...WITHOUT_BODY, otherResponses: [...WITHOUT_BODY.otherResponses, ...CUT_OFF] },
    );
    expect(objections).toEqual([]);
    expect(keysWithOtherBytes(lab)).toEqual([]);
    expect(figures.executions).toBe(points.length);
  });
});
