import { createHash, randomBytes } from 'node:crypto';
import {
  appendFile,
  copyFile,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  truncate,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Controller, Header, Post, StreamableFile } from '@nestjs/common';
import {
  IdempotencyEvents,
  IdempotencyMeter,
  IdempotencyService,
  Idempotent,
  staticKeys,
  type IdempotencyEvent,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { fileBlobs } from 'nestjs-idempotency/blobs/file';
import { redisStore } from 'nestjs-idempotency/redis';
import type { BlobStore } from 'nestjs-idempotency/store';
import type { OutcomeOptions } from '../../support/internals/core.js';
import { platforms, type Platform } from '../../support/http/combinations.js';
import { ALICE } from '../../support/http/callers.guard.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { useRedis, useRedisClient } from '../../support/redis/use-redis.js';

const KEYS = staticKeys({ current: 'k1', keys: { k1: randomBytes(32) } });
const ABOVE = 10_000;
const LARGE = 300_000;

const redis = useRedis();
const client = useRedisClient(redis);
const apps: TestApp[] = [];
let directory: string;
let executions: number;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'idempotency-blobs-'));
  executions = 0;
  await client.flushall();
});
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
  await rm(directory, { recursive: true, force: true });
});

/** Cannot be compressed, and tells an execution from another one. */
const bytesOf = (length: number) => randomBytes(length);

@Controller()
class Files {
  @Post('file')
  @Idempotent()
  @Header('content-type', 'application/pdf')
  file() {
    executions += 1;
    return new StreamableFile(bytesOf(LARGE));
  }

  @Post('rows')
  @Idempotent()
  rows() {
    executions += 1;
    return Array.from({ length: 3_000 }, (_, id) => ({
      id,
      execution: executions,
      amount: id * 7,
    }));
  }

  @Post('small')
  @Idempotent()
  small() {
    executions += 1;
    return { id: executions };
  }

  @Post('kept-in-the-record')
  @Idempotent({ outcome: { offload: false } })
  kept() {
    executions += 1;
    return new StreamableFile(bytesOf(LARGE));
  }
}

type Options = Pick<IdempotencyModuleOptions, 'outcome' | 'secrets'> & {
  /** `undefined`: none. */
  readonly blobs?: BlobStore | undefined;
};

async function start(options: Options = {}, platform: Platform = 'express') {
  const { secrets, blobs } = { blobs: fileBlobs({ directory }), ...options };
  const outcome = options.outcome as OutcomeOptions | undefined;
  const app = await startApp({
    platform,
    controllers: [Files],
    store: redisStore({ url: redis.url }),
    guard: ALICE,
    options: {
      ...(secrets && { secrets }),
      ...(blobs && { blobs }),
      outcome: { offload: { aboveBytes: ABOVE }, ...outcome },
    },
  });
  apps.push(app);
  const events: IdempotencyEvent[] = [];
  app.nest.get(IdempotencyEvents, { strict: false }).subscribe((event) => void events.push(event));
  const send = async (path: string, key = 'k') => {
    const response = await fetch(`http://127.0.0.1:${app.port}/${path}`, {
      method: 'POST',
      headers: { 'idempotency-key': key },
    });
    const body = Buffer.from(await response.arrayBuffer());
    return {
      status: response.status,
      isReplayed: response.headers.get('idempotent-replayed') === 'true',
      type: response.headers.get('content-type'),
      length: response.headers.get('content-length'),
      body: createHash('sha256').update(body).digest('hex'),
      problem: response.ok ? undefined : (JSON.parse(body.toString()) as { code: string }).code,
      bytes: body.length,
    };
  };
  return { app, send, events };
}

/** The blobs, by their paths. */
async function blobs(): Promise<string[]> {
  const names = await readdir(directory, { recursive: true });
  const files: string[] = [];
  for (const name of names) {
    const path = join(directory, name);
    if (!name.startsWith('tmp') && (await stat(path)).isFile()) files.push(path);
  }
  return files;
}

async function largestRecord(): Promise<number> {
  const lengths = await Promise.all(
    (await client.keys('idem:1:*')).map((key) => client.strlen(key)),
  );
  return Math.max(...lengths);
}

const FORMS: readonly [string, Options][] = [
  ['as they are', {}],
  ['compressed', { outcome: { compression: true } }],
  ['encrypted', { secrets: KEYS }],
  ['compressed, then encrypted', { secrets: KEYS, outcome: { compression: true } }],
];

describe.each(platforms)('On %s,', (platform) => {
  describe.each(FORMS)('bodies that are stored %s', (_, form) => {
    it.each(['file', 'rows'])(
      'of /%s are in the blob store, and a replay has their bytes',
      async (path) => {
        const one = await start(form, platform);
        const first = await one.send(path);
        expect(first).toMatchObject({ status: 201, isReplayed: false });
        expect(await blobs()).toHaveLength(1);
        expect(await largestRecord()).toBeLessThan(1_000);
        expect(await one.send(path)).toMatchObject({ ...first, isReplayed: true });
        const other = await start({ ...form, outcome: {} }, platform);
        expect(await other.send(path)).toMatchObject({ ...first, isReplayed: true });
        expect(executions).toBe(1);
      },
    );
  });
});

describe('The blob store', () => {
  it('has no small body, and none of a route that keeps its own in the record', async () => {
    const { send } = await start();
    for (const path of ['small', 'kept-in-the-record']) {
      const first = await send(path, path);
      expect(await send(path, path)).toMatchObject({ ...first, isReplayed: true });
    }
    expect(await blobs()).toEqual([]);
  });

  it('has the values of calls, too', async () => {
    const { app } = await start({ secrets: KEYS });
    const calls = app.nest.get(IdempotencyService, { strict: false });
    const call = { operation: 'report', key: 'k', scope: ['alice'] };
    const value = 'v'.repeat(LARGE);
    expect(await calls.run(call, () => value)).toBe(value);
    expect(await calls.run(call, () => 'again')).toBe(value);
    expect(await blobs()).toHaveLength(1);
  });

  it('has those above outcome.maxBytes, up to what is held in memory', async () => {
    const { app } = await start({ outcome: { offload: { aboveBytes: ABOVE }, maxBytes: 20_000 } });
    const calls = app.nest.get(IdempotencyService, { strict: false });
    const call = { operation: 'report', key: 'k', scope: ['alice'] };
    const value = bytesOf(LARGE);
    const run = async (returned: Buffer) => (await calls.run(call, () => returned)).equals(value);
    expect([await run(value), await run(bytesOf(1))]).toEqual([true, true]);
    expect(await blobs()).toHaveLength(1);
    const huge = { ...call, key: 'huge' };
    expect((await calls.run(huge, () => Buffer.alloc(67_108_865))).length).toBe(67_108_865);
    await expect(calls.run(huge, () => bytesOf(1))).rejects.toMatchObject({
      code: 'idempotency_response_not_kept',
    });
    expect(await blobs()).toHaveLength(1);
  });

  it('has nothing in clear with secrets', async () => {
    const { app } = await start({ secrets: KEYS });
    const calls = app.nest.get(IdempotencyService, { strict: false });
    const value = 'a marked text '.repeat(10_000);
    await calls.run({ operation: 'report', key: 'k', scope: ['alice'] }, () => value);
    const [path = ''] = await blobs();
    expect((await readFile(path)).includes('marked')).toBe(false);
    // The pointer has the key of the blob.
    const records = await Promise.all((await client.keys('*')).map((key) => client.get(key)));
    expect(records.join('\n')).not.toContain(basename(path));
  });
});

/** What can become of a blob, and of its folder. */
const FAULTS: readonly [string, number, string, string, (path: string) => Promise<unknown>][] = [
  ['is gone', 409, 'idempotency_response_not_kept', 'blob_missing', (path) => rm(path)],
  [
    'is cut short',
    500,
    'idempotency_outcome_unreadable',
    'integrity',
    (path) => truncate(path, LARGE - 1),
  ],
  [
    'is longer',
    500,
    'idempotency_outcome_unreadable',
    'integrity',
    (path) => appendFile(path, 'x'),
  ],
  [
    'is that of another attempt',
    500,
    'idempotency_outcome_unreadable',
    'integrity',
    async (path) => {
      const other = (await blobs()).find((each) => each !== path)!;
      await copyFile(other, path);
    },
  ],
  [
    'cannot be reached',
    503,
    'idempotency_outcome_unavailable',
    'blob_unavailable',
    () => rename(directory, `${directory}-away`),
  ],
];

describe.each([
  ['in clear', {}],
  ['encrypted', { secrets: KEYS }],
] as const)('A blob %s', (_, form) => {
  it.each(FAULTS)(
    'that %s: %i, and the operation does not run again',
    async (_, status, code, reason, fault) => {
      const { send, events } = await start(form);
      await send('file', 'k');
      const [path = ''] = await blobs();
      await send('file', 'other');
      await fault(path);
      try {
        expect(await send('file', 'k')).toMatchObject({ status, problem: code, isReplayed: false });
      } finally {
        await rename(`${directory}-away`, directory).catch(() => undefined);
      }
      expect(executions).toBe(2);
      expect(events).toContainEqual(
        expect.objectContaining({ type: 'outcome_unreadable', reason }),
      );
    },
  );
});

describe('The meter', () => {
  it('counts bytes by place and direction, seconds and results of the blob store, and reasons', async () => {
    const { app, send } = await start();
    const read = () => app.nest.get(IdempotencyMeter, { strict: false }).read();
    expect(read()).toMatchObject({ outcomeBytes: {}, blobs: {} });
    await send('small', 'small');
    await send('small', 'small');
    expect(read()).toMatchObject({ outcomeBytes: {}, blobs: {} });
    await send('file');
    const { outcomeBytes, blobs: put } = read();
    const record = outcomeBytes.record!.put!;
    expect(outcomeBytes).toEqual({ record: { put: record }, blob: { put: LARGE } });
    expect(record).toBeGreaterThan(100);
    expect(record).toBeLessThan(1_000);
    expect(put).toMatchObject({ put: { ok: { count: 1 } } });
    expect(put.put!.ok!.sum).toBeGreaterThan(0);
    await send('file');
    await rename(directory, `${directory}-away`);
    await send('file');
    await send('file', 'not-put');
    await rename(`${directory}-away`, directory);
    const [path = ''] = await blobs();
    await rm(path);
    await send('file');
    const { outcomeBytes: bytes, blobs: results, operations } = read();
    expect(bytes).toEqual({
      record: { put: record, get: 3 * record },
      blob: { put: LARGE, get: LARGE },
    });
    expect(results).toMatchObject({
      put: { ok: { count: 1 }, failed: { count: 1 } },
      get: { ok: { count: 1 }, failed: { count: 1 }, missing: { count: 1 } },
    });
    const { unreadable, incidents } = operations.get('Files.file')!;
    expect(unreadable).toEqual({ blob_unavailable: 1, blob_missing: 1 });
    expect(incidents).toMatchObject({ outcome_unreadable: 2, pack_failed: 1 });
  });

  it('counts what is compressed or encrypted in its record', async () => {
    const { app, send } = await start({ secrets: KEYS, blobs: undefined });
    await send('small');
    await send('small');
    const { outcomeBytes, blobs: none } = app.nest.get(IdempotencyMeter, { strict: false }).read();
    const { put } = outcomeBytes.record!;
    expect(outcomeBytes).toEqual({ record: { put, get: put } });
    expect(put).toBeGreaterThan(44);
    expect(none).toEqual({});
  });
});

it('A process without the blob store, or with another one, answers 503', async () => {
  const { send } = await start();
  const first = await send('file');
  const elsewhere: BlobStore = Object.create(fileBlobs({ directory }), { id: { value: 'other' } });
  for (const blobs of [undefined, elsewhere]) {
    const other = await start({ blobs });
    expect(await other.send('file')).toMatchObject({
      status: 503,
      problem: 'idempotency_outcome_unavailable',
    });
    expect(other.events).toContainEqual(
      expect.objectContaining({ type: 'outcome_unreadable', reason: 'blob_store' }),
    );
  }
  expect(executions).toBe(1);
  expect(await send('file')).toMatchObject({ ...first, isReplayed: true });
});

it('An application that does not start leaves the blob store open for others', async () => {
  let openings = 0;
  const files = fileBlobs({ directory });
  const shared: BlobStore = Object.create(files, {
    open: { value: () => ((openings += 1), files.open()) },
    close: { value: () => ((openings -= 1), files.close()) },
  });
  await start({ blobs: shared });
  const down = { load: () => Promise.reject(new Error('the KMS is down')) };
  await expect(start({ blobs: shared, secrets: down })).rejects.toThrow('the KMS is down');
  expect(openings).toBe(1);
  await apps.splice(0)[0]?.close();
  expect(openings).toBe(0);
});

it('A body that cannot be put: its caller gets it, and a retry 409; the operation does not run again', async () => {
  const { send, events } = await start();
  await rm(directory, { recursive: true });
  const first = await send('file');
  expect(first).toMatchObject({ status: 201, bytes: LARGE });
  expect(await send('file')).toMatchObject({
    status: 409,
    problem: 'idempotency_response_not_kept',
  });
  expect(executions).toBe(1);
  expect(events).toContainEqual(
    expect.objectContaining({ type: 'pack_failed', errorType: 'idempotency_blob_unavailable' }),
  );
});
