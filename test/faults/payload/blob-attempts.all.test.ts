import { execFileSync } from 'node:child_process';
import { readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { fileBlobs } from 'nestjs-idempotency/blobs/file';
import { Lab, type StartOptions } from '../../../lab/faults/lab.js';
import type { LabWorker } from '../../../lab/faults/lab-worker.js';
import type { Point } from '../../../lab/faults/worker/mishap.js';
import { describeWithClock, ServerClock } from '../../support/clocks/server-clock.js';
import { startRedis, type RedisServer } from '../../support/redis/redis-server.js';
import { TcpRelay } from '../../support/servers/tcp-relay.js';
import { until } from '../../support/waiting/until.js';
import { folderPlace } from './support/blob-places.js';
import { ABOVE, isWhole, keysWithOtherBytes, LARGE } from './support/large-bodies.js';

const LEASE_MS = 60_000;
const RETENTION_MS = 3_600_000;
const DAY_MS = 86_400_000;
const NOT_KEPT = { status: 409, code: 'idempotency_response_not_kept' };

const hasPrlimit = (() => {
  try {
    return execFileSync('prlimit', ['--version']).length > 0;
  } catch {
    return false;
  }
})();

describeWithClock('An attempt whose body is put into a blob store', () => {
  let clock: ServerClock;
  let redis: RedisServer;
  let relay: TcpRelay;
  let lab: Lab;
  let other: LabWorker;
  const place = folderPlace();

  beforeAll(async () => {
    clock = new ServerClock();
    redis = await startRedis({ env: clock.env });
    relay = await TcpRelay.start(redis.port);
    lab = await Lab.set();
    other = await start();
  }, 120_000);

  afterAll(async () => {
    await lab.clear();
    await relay.stop();
    await redis.stop();
    clock.remove();
    await place.stop();
  });

  function start(
    { blobs, options }: Pick<StartOptions, 'blobs' | 'options'> = {},
    url = redis.url,
  ): Promise<LabWorker> {
    return lab.start(
      { kind: 'redis', url },
      {
        blobs: blobs ?? place.settings,
        options: {
          lease: { duration: LEASE_MS },
          outcome: { retention: RETENTION_MS, offload: { aboveBytes: ABOVE } },
          ...options,
        },
      },
    );
  }

  const send = (worker: LabWorker, key: string, hold?: Point, signal?: AbortSignal) =>
    lab.client.send(worker.url, key, {
      body: { bytes: LARGE },
      mishap: hold && { point: hold, action: { kind: 'hold' } },
      ...(signal && { signal }),
    });

  async function expectReplay(worker: LabWorker, key: string): Promise<void> {
    const replay = await send(worker, key);
    expect(replay).toMatchObject({ status: 201, replayed: true });
    expect(isWhole(replay)).toBe(true);
  }

  it('that is superseded after the put: its client gets the bytes of the winner, as each retry does', async () => {
    const key = 'superseded';
    const slow = await start();
    const before = (await place.blobs()).length;
    const response = send(slow, key, 'before_complete');
    await until(async () => (await place.blobs()).length > before);
    clock.pass(LEASE_MS);
    const winner = await send(other, key);
    expect([isWhole(winner), winner.replayed]).toEqual([true, false]);
    slow.releaseUnowned();
    const late = await response;
    if (late.error === undefined) {
      expect(late).toMatchObject({ status: 201, execution: winner.execution });
      expect(isWhole(late)).toBe(true);
    }
    expect(lab.effects(key)).toHaveLength(2);
    expect(lab.eventsOf(key)).toContainEqual(expect.objectContaining({ type: 'superseded' }));
    await expectReplay(other, key);
  });

  it('whose complete has no reply: its blob stays, and has the bytes of each retry', async () => {
    const key = 'unknown';
    const unsure = await start(
      {
        options: { storeErrors: { whenNotSaved: 'error', commandTimeout: 500, saveTimeout: 500 } },
      },
      relay.through(redis.url),
    );
    const before = (await place.blobs()).length;
    const response = send(unsure, key, 'before_complete');
    await until(async () => (await place.blobs()).length > before);
    // The command arrives, and is executed.
    relay.swallowReplies();
    unsure.releaseUnowned();
    const answer = await response;
    expect(answer.error ?? answer.status).not.toBe(201);
    await expectReplay(other, key);
    relay.deliver();
    relay.cut();
    await expectReplay(unsure, key);
    expect(lab.effects(key)).toHaveLength(1);
  });

  it('whose client leaves during the put: it is stored, and replayed', async () => {
    const key = 'left';
    const holding = await start();
    const client = new AbortController();
    const left = send(holding, key, 'before_put', client.signal);
    await lab.untilEffect(key);
    client.abort();
    expect(await left).toMatchObject({ error: 'ABORT_ERR' });
    holding.releaseUnowned();
    await lab.untilReported(
      (line) => line.type === 'lab:settled' && line.worker === holding.name && line.reply === 'ok',
    );
    await expectReplay(other, key);
    expect(lab.effects(key)).toHaveLength(1);
  });

  it('whose process is told to end during the put: it ends after the response', async () => {
    const key = 'shutdown';
    const ending = await start();
    const response = send(ending, key, 'before_put');
    await lab.untilEffect(key);
    const ended = ending.terminate();
    ending.releaseUnowned();
    expect(isWhole(await response)).toBe(true);
    await ended;
    await expectReplay(other, key);
    expect(lab.effects(key)).toHaveLength(1);
  });

  (hasPrlimit ? it : it.skip)(
    'whose file cannot become so large: done, not kept, and never run again',
    async () => {
      const key = 'full';
      const full = await start({
        blobs: { kind: 'file', directory: place.directory, mostBytes: LARGE / 2 },
      });
      const before = (await place.blobs()).length;
      const first = await send(full, key);
      if (!isWhole(first)) expect(first).toMatchObject(NOT_KEPT);
      expect(await send(full, key)).toMatchObject(NOT_KEPT);
      expect(await send(other, key)).toMatchObject(NOT_KEPT);
      expect(lab.effects(key)).toHaveLength(1);
      expect(lab.eventsOf(key)).toContainEqual(expect.objectContaining({ type: 'pack_failed' }));
      // Of the put that failed.
      expect((await place.blobs()).length).toBe(before);
    },
  );

  it('whose record has expired before its blob: the next request is the first one, with a blob of its own', async () => {
    const key = 'record-expired';
    const first = await send(other, key);
    const before = (await place.blobs()).length;
    clock.pass(RETENTION_MS + 1);
    const again = await send(other, key);
    expect([isWhole(again), again.replayed]).toEqual([true, false]);
    expect(again.execution).not.toBe(first.execution);
    expect((await place.blobs()).length).toBe(before + 1);
    await expectReplay(other, key);
    expect(lab.effects(key)).toHaveLength(2);
  });

  it('whose blob has expired before its record: not kept, and never run again', async () => {
    const key = 'blob-expired';
    expect(isWhole(await send(other, key))).toBe(true);
    await expectReplay(other, key);
    // Near midnight a retention of a day ends the day after tomorrow.
    await age(3 * DAY_MS);
    // At the start, as each hour.
    const sweeper = fileBlobs({ directory: place.directory });
    await sweeper.open();
    await sweeper.close();
    expect(await place.blobs()).toEqual([]);
    expect(await send(other, key)).toMatchObject(NOT_KEPT);
    expect(lab.effects(key)).toHaveLength(1);
  });

  it('has never given a client other bytes than those of its execution', () => {
    expect(keysWithOtherBytes(lab)).toEqual([]);
  });

  /** As if all blobs had been put so long ago. */
  async function age(ms: number): Promise<void> {
    const folder = join(place.directory, 'd1');
    for (const day of await readdir(folder)) {
      const earlier = new Date(Date.parse(day) - ms).toISOString().slice(0, 10);
      await rename(join(folder, day), join(folder, earlier));
    }
  }
});
