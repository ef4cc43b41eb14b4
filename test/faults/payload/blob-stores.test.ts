import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Lab } from '../../../lab/faults/lab.js';
import type { LabWorker } from '../../../lab/faults/lab-worker.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { useRedis, useRedisClient } from '../../support/redis/use-redis.js';
import {
  folderPlace,
  s3Place,
  tablePlace,
  type BlobPlace,
  type S3Place,
} from './support/blob-places.js';
import { ABOVE, isWhole, keysWithOtherBytes, LARGE, WITHOUT_BODY } from './support/large-bodies.js';

/** Longer than a healthy store takes on a busy machine. */
const TIMEOUT_MS = 3_000;
const NOT_KEPT = { status: 409, code: 'idempotency_response_not_kept' };
const UNAVAILABLE = { status: 503, code: 'idempotency_outcome_unavailable', retryAfter: 1 };

const PLACES: readonly (readonly [string, () => BlobPlace | Promise<BlobPlace>])[] = [
  ['s3Blobs', s3Place],
  ['fileBlobs', folderPlace],
  ['postgresBlobs', tablePlace],
];

const redis = useRedis();
const records = useRedisClient(redis);
let place: BlobPlace;
let lab: Lab;
let worker: LabWorker;

const send = (key: string) => lab.client.send(worker.url, key, { body: { bytes: LARGE } });
const reasonsFor = (key: string) =>
  lab.eventsOf(key).flatMap((line) => ('reason' in line ? [line.reason] : []));
const typesFor = (key: string) => lab.eventsOf(key).map(({ type }) => type);

async function set(placed: () => BlobPlace | Promise<BlobPlace>): Promise<void> {
  // Each place has the same keys.
  [place, lab] = await Promise.all([placed(), Lab.set(), records.flushall()]);
  const { secrets, compression = false } = place.form;
  worker = await lab.start(
    { kind: 'redis', url: redis.url },
    {
      blobs: place.settings,
      ...(secrets && { secrets }),
      options: {
        outcome: {
          compression,
          offload: { aboveBytes: ABOVE, putTimeout: TIMEOUT_MS, getTimeout: TIMEOUT_MS },
        },
      },
    },
  );
}

async function clear(): Promise<void> {
  await lab.clear();
  await place.stop();
}

/** The operation is done once, its client hears no more than that, and so does each retry. */
async function expectNotKept(key: string): Promise<void> {
  const first = await send(key);
  // Its bytes may be there still.
  if (!isWhole(first)) expect(first).toMatchObject(NOT_KEPT);
  await place.recover();
  expect(await send(key)).toMatchObject(NOT_KEPT);
  expect(lab.effects(key)).toHaveLength(1);
  expect(typesFor(key)).toContain('pack_failed');
}

/** The response to its first request. */
async function stored(key: string) {
  const first = await send(key);
  expect([isWhole(first), first.replayed]).toEqual([true, false]);
  return first;
}

/** What no client takes for the whole body. */
async function expectNoSuccess(key: string, problem: object): Promise<void> {
  const response = await send(key);
  // Where the head has left, the connection breaks.
  if (response.error === undefined) expect(response).toMatchObject(problem);
  expect(lab.effects(key)).toHaveLength(1);
}

async function expectReplay(key: string, execution: string | undefined): Promise<void> {
  const replay = await send(key);
  expect(replay).toMatchObject({ status: 201, replayed: true, execution });
  expect(isWhole(replay)).toBe(true);
  expect(lab.effects(key)).toHaveLength(1);
}

// The store that has each of the faults.
describe.each(isTestAll ? PLACES : PLACES.slice(0, 1))('A large body and %s', (_, placed) => {
  beforeAll(() => set(placed), 120_000);
  afterEach(async () => {
    await place.recover();
  });
  afterAll(clear);

  it('that is down at the put: done, not kept, and never run again', async () => {
    await place.goDown();
    await expectNotKept('down-at-put');
  });

  it('that does not reply to a put: the same, after the timeout', async () => {
    if (place.goMute === undefined) return;
    await place.goMute();
    await expectNotKept('mute-at-put');
  });

  it('that is down at a replay: 503 until it is back', async () => {
    const { execution } = await stored('down-at-get');
    await place.goDown();
    await expectNoSuccess('down-at-get', UNAVAILABLE);
    await place.recover();
    await expectReplay('down-at-get', execution);
    expect(reasonsFor('down-at-get')).toContain('blob_unavailable');
  });

  it('that does not reply to a replay: 503 until it does', async () => {
    if (place.goMute === undefined) return;
    const { execution } = await stored('mute-at-get');
    await place.goMute();
    await expectNoSuccess('mute-at-get', UNAVAILABLE);
    await place.recover();
    await expectReplay('mute-at-get', execution);
  });

  describe('that has', () => {
    beforeEach(async () => {
      for (const blob of await place.blobs()) await blob.remove();
    });

    it('lost it: not kept, and never run again', async () => {
      await stored('lost');
      for (const blob of await place.blobs()) await blob.remove();
      await expectNoSuccess('lost', NOT_KEPT);
      expect(reasonsFor('lost')).toContain('blob_missing');
    });

    it.each<[string, (bytes: Buffer, other: Buffer) => Buffer]>([
      ['lost its last byte', (bytes) => bytes.subarray(0, -1)],
      ['lost its second half', (bytes) => bytes.subarray(0, bytes.length / 2)],
      ['lost all of its bytes', () => Buffer.alloc(0)],
      ['a byte more', (bytes) => Buffer.concat([bytes, Buffer.of(0)])],
      ['a bit of its beginning changed', (bytes) => flipped(bytes, 0)],
      ['a bit of its end changed', (bytes) => flipped(bytes, bytes.length - 1)],
      ['exchanged it for that of another key', (_, other) => other],
    ])('%s: no success, and never run again', async (what, changed) => {
      const key = what.replaceAll(' ', '-');
      const { execution } = await stored(key);
      const [blob] = await place.blobs();
      await stored(`beside-${key}`);
      const other = (await place.blobs()).find(({ bytes }) => !bytes.equals(blob!.bytes));
      await blob!.replace(changed(blob!.bytes, other!.bytes));
      await expectNoSuccess(key, { status: 500, code: 'idempotency_outcome_unreadable' });
      // Which of them depends on where a compressed body is changed.
      expect(['integrity', 'format']).toContain(reasonsFor(key)[0]);
      await blob!.replace(blob!.bytes);
      await expectReplay(key, execution);
    });
  });

  it('leaves one effect for each key, and no client with other bytes than those of its execution', () => {
    const { objections, figures } = lab.judge(WITHOUT_BODY);
    expect(objections).toEqual([]);
    expect(keysWithOtherBytes(lab)).toEqual([]);
    expect(figures.executions).toBe(figures.keys);
  });
});

describe('S3 breaks off', () => {
  let s3: S3Place;
  beforeAll(async () => {
    s3 = await s3Place();
    await set(() => s3);
  }, 120_000);
  afterEach(() => {
    s3.recover();
  });
  afterAll(clear);

  it.each([
    ['a request before it arrives', 'cut'],
    ['a request in its middle', 'cut the request'],
    ['a request, and then its response is lost', 'lose the answer'],
    ['by an error of its own', { status: 503, code: 'SlowDown' }],
  ] as const)('at a put, %s: done, not kept, and never run again', async (what, fault) => {
    s3.gateway.follow(({ method }) => (method === 'PUT' ? fault : 'none'));
    await expectNotKept(`put ${what}`.replaceAll(/\W+/g, '-'));
  });

  it.each([
    ['a request before it arrives', 'cut'],
    ['its response in the middle', 'cut the answer'],
    ['its response in the middle, with the connection open', 'stall the answer'],
    ['by an error of its own', { status: 500, code: 'InternalError' }],
    ['by an error that says the bucket is gone', { status: 404, code: 'NoSuchBucket' }],
  ] as const)('at a replay, %s: 503 until it is back', async (what, fault) => {
    const key = `get ${what}`.replaceAll(/\W+/g, '-');
    const { execution } = await stored(key);
    s3.gateway.follow(({ method }) => (method === 'GET' ? fault : 'none'));
    await expectNoSuccess(key, UNAVAILABLE);
    s3.recover();
    await expectReplay(key, execution);
  });

  it('and leaves one effect for each key', () => {
    const { objections, figures } = lab.judge(WITHOUT_BODY);
    expect(objections).toEqual([]);
    expect(keysWithOtherBytes(lab)).toEqual([]);
    expect(figures.executions).toBe(figures.keys);
  });
});

function flipped(bytes: Buffer, at: number): Buffer {
  const changed = Buffer.from(bytes);
  changed[at]! ^= 1;
  return changed;
}
