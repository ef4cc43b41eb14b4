import { createHash } from 'node:crypto';
import { appendFile, copyFile, rename, rm, stat, truncate } from 'node:fs/promises';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { describe, expect, it } from '@jest/globals';
import { staticKeys, type IdempotencyEvent } from 'nestjs-idempotency';
import { fileBlobs } from 'nestjs-idempotency/blobs/file';
import type { BlobStore } from 'nestjs-idempotency/store';
import { platforms } from '../../support/http/combinations.js';
import { Http2Client, reset } from '../../support/http/wire/http2-client.js';
import type { OutcomeOptions } from '../../support/internals/core.js';
import { until } from '../../support/waiting/until.js';
import {
  ask,
  blobs,
  connectionsOf,
  digestOf,
  failingAfter,
  gated,
  LARGE,
  MAX_BYTES,
  run,
  start,
  waysOn,
  type Options,
} from './support/large-files.js';

const KEYS = staticKeys({ current: 'k1', keys: { k1: Buffer.alloc(32, 1) } });

const FORMS: readonly [string, boolean, Options][] = [
  ['as they are', false, {}],
  ['compressed', true, { outcome: { compression: true } }],
  ['encrypted', false, { secrets: KEYS }],
  ['compressed, then encrypted', true, { secrets: KEYS, outcome: { compression: true } }],
];

describe.each(platforms)('On %s, a large body', (platform) => {
  it.each(waysOn(platform))(
    'that is sent by /%s is stored, then sent, and replayed',
    async (path) => {
      const { send, events } = await start(platform);
      const first = await send(path);
      expect(first).toMatchObject({
        status: 201,
        isReplayed: false,
        bytes: LARGE,
        length: String(LARGE),
        digest: digestOf(1),
        error: undefined,
      });
      expect(await blobs()).toHaveLength(1);
      expect(await send(path)).toEqual({ ...first, isReplayed: true });
      expect(run.executions).toBe(1);
      expect(events.map(({ type }) => type)).toContain('completed');
      expect(events.map(({ type }) => type)).not.toContain('pack_failed');
    },
  );

  it.each(FORMS)('is the same where it is stored %s', async (_, isCompressible, options) => {
    run.form = { isCompressible };
    const { send } = await start(platform, options);
    const first = await send('file');
    expect(first).toMatchObject({ status: 201, bytes: LARGE, digest: digestOf(1) });
    const [path = ''] = await blobs();
    const { size } = await stat(join(run.directory, path));
    if (isCompressible) expect(size).toBeLessThan(LARGE / 2);
    else expect(size).toBeGreaterThanOrEqual(LARGE);
    expect(await send('file')).toEqual({ ...first, isReplayed: true });
    expect(run.executions).toBe(1);
  });
});

const NOT_KEPT = { status: 409, problem: 'idempotency_response_not_kept', isReplayed: false };

const failures = (events: readonly IdempotencyEvent[]) =>
  events.flatMap((event) => (event.type === 'pack_failed' ? [event.errorType] : []));

describe.each(platforms)('On %s, a large body that cannot be stored', (platform) => {
  it.each(waysOn(platform).filter((path) => path !== 'buffer'))(
    'as the blob store fails: /%s is answered as its repetitions are, and runs once',
    async (path) => {
      const { send, events } = await start(platform, { blobs: failingAfter(1_000_000) });
      expect(await send(path)).toMatchObject(NOT_KEPT);
      expect(await send(path)).toMatchObject(NOT_KEPT);
      expect(run.executions).toBe(1);
      expect(failures(events)).toEqual(['idempotency_blob_unavailable']);
    },
  );

  it('but is held as a whole is sent', async () => {
    const { send, events } = await start(platform, { blobs: failingAfter(1_000_000) });
    expect(await send('buffer')).toMatchObject({ status: 201, digest: digestOf(1) });
    expect(await send('buffer')).toMatchObject(NOT_KEPT);
    expect(failures(events)).toEqual(['idempotency_blob_unavailable']);
  });

  it.each<[string, string, Options, string]>([
    [
      'a blob store that takes nothing more',
      'file',
      { outcome: { offload: { putTimeout: '200ms' } } },
      'idempotency_blob_unavailable',
    ],
    [
      'an upload that is not over in time',
      'file',
      { lease: { duration: '300ms', maxExecution: '300ms' } },
      'idempotency_blob_unavailable',
    ],
    ['a handler that does not wait', 'too-hasty', {}, 'idempotency_body_too_fast'],
    [
      'more bytes than outcome.offload.maxBytes',
      'writes',
      { outcome: { offload: { maxBytes: 1_000_000 } } },
      'idempotency_body_too_large',
    ],
  ])('because of %s is not kept', async (_, path, { outcome, ...options }, errorType) => {
    const { send, events } = await start(platform, {
      ...options,
      blobs: failingAfter(1_000_000, true),
      outcome: { maxBytes: MAX_BYTES, ...(outcome as OutcomeOptions) },
    });
    expect(await send(path)).toMatchObject(NOT_KEPT);
    expect(await send(path)).toMatchObject(NOT_KEPT);
    expect(run.executions).toBe(1);
    expect(failures(events)).toEqual([errorType]);
  });
});

describe.each(platforms)('On %s, a client that leaves while a large body is stored', (platform) => {
  it.each(waysOn(platform).filter((path) => path !== 'buffer'))(
    'finds the outcome of /%s later',
    async (path) => {
      const { blobs: store, gate, arrived } = gated();
      const { app, send, events } = await start(platform, { blobs: store });
      const lost = ask(app.port, path, 'k').end();
      lost.once('error', () => undefined);
      await arrived.pass();
      lost.destroy();
      // The server hears of it before the rest is stored.
      await until(async () => (await connectionsOf(app)) === 0);
      gate.open();
      await until(() => events.some(({ type }) => type === 'ended'));
      expect(await send(path)).toMatchObject({
        status: 201,
        isReplayed: true,
        bytes: LARGE,
        digest: digestOf(1),
      });
      expect(run.executions).toBe(1);
    },
  );
});

it.each(['file', 'send'])(
  'Over HTTP/2, a client that leaves while a large body is stored finds the outcome of /%s later, and nothing stays open',
  async (path) => {
    const { blobs: store, gate, arrived } = gated();
    const opened = openedOf(store);
    const { app, events } = await start('fastify', { blobs: store }, { http2: true });
    const client = await Http2Client.connect(app.port);
    const lost = client.openBodiless(`/${path}`, { 'idempotency-key': 'k' });
    await arrived.pass();
    await reset(lost);
    gate.open();
    await until(() => events.some(({ type }) => type === 'ended'));
    await until(() => opened.length === 1 && opened.every(({ destroyed }) => destroyed));
    const retry = await client.post(`/${path}`, { 'idempotency-key': 'k' });
    expect(retry).toMatchObject({ status: 201, replayed: true });
    expect(createHash('sha256').update(retry.body).digest('hex')).toBe(digestOf(1));
    expect(run.executions).toBe(1);
    client.close();
  },
);

/** What is read back from a store, which is watched. */
function openedOf(store: BlobStore): readonly Readable[] {
  const opened: Readable[] = [];
  const get = store.get.bind(store);
  Object.defineProperty(store, 'get', {
    value: async (...args: Parameters<BlobStore['get']>) => {
      const stream = await get(...args);
      const isOfStart = args[0].includes('/probe/');
      if (stream !== undefined && !isOfStart) opened.push(stream);
      return stream;
    },
  });
  return opened;
}

describe.each(platforms)('On %s, a large body whose source fails', (platform) => {
  it('is never stored as a whole, and runs once', async () => {
    run.form = { failsAfter: 1_000_000 };
    const { send, events } = await start(platform);
    const first = await send('file').catch(() => ({ status: 0 }));
    expect(first.status).not.toBe(201);
    await until(() => events.some(({ type }) => type === 'ended'));
    expect(await blobs()).toEqual([]);
    const retry = await send('file');
    // A response in its place is an outcome like any other.
    expect([409, 500]).toContain(retry.status);
    expect(run.executions).toBe(1);
  });

  it('silently, before the announced length, is the same', async () => {
    const { send } = await start(platform);
    expect(await send('announced')).toMatchObject(NOT_KEPT);
    expect(await blobs()).toEqual([]);
    expect(await send('announced')).toMatchObject(NOT_KEPT);
    expect(run.executions).toBe(1);
  });
});

type Fault = (path: string, other: string) => Promise<unknown>;

const FAULTS: readonly [string, Fault, object, string][] = [
  ['is gone', (path) => rm(path), NOT_KEPT, 'blob_missing'],
  ['is cut short', (path) => truncate(path, LARGE - 1), { error: 'ECONNRESET' }, 'integrity'],
  ['is longer', (path) => appendFile(path, 'x'), { error: 'ECONNRESET' }, 'integrity'],
  [
    'is that of another key',
    (path, other) => copyFile(other, path),
    { error: 'ECONNRESET' },
    'integrity',
  ],
];

describe.each(platforms)('On %s, the blob of a large body', (platform) => {
  it.each(FAULTS)(
    'that %s is no whole answer, and nothing runs again',
    async (_, fault, expected, reason) => {
      const { send, events } = await start(platform);
      await send('file');
      const [path = ''] = await blobs();
      await send('file', 'other');
      const other = (await blobs()).find((each) => each !== path)!;
      await fault(join(run.directory, path), join(run.directory, other));
      const replay = await send('file');
      expect(replay).toMatchObject(expected);
      if (replay.error !== undefined) expect(replay.bytes).toBeLessThan(LARGE);
      expect(run.executions).toBe(2);
      expect(events).toContainEqual(
        expect.objectContaining({ type: 'outcome_unreadable', reason }),
      );
    },
  );

  it('that cannot be reached: 503, until it can', async () => {
    const { send } = await start(platform);
    const first = await send('file');
    await rename(run.directory, `${run.directory}-away`);
    expect(await send('file')).toMatchObject({ status: 503, isReplayed: false });
    await rename(`${run.directory}-away`, run.directory);
    expect(await send('file')).toEqual({ ...first, isReplayed: true });
    expect(run.executions).toBe(1);
  });

  it('is read by each of twenty replays at once, and by duplicates that wait', async () => {
    const { blobs: store, gate, arrived } = gated();
    const { send } = await start(platform, { blobs: store, duplicates: 'wait' });
    const first = send('file');
    await arrived.pass();
    const waiting = Array.from({ length: 5 }, () => send('file'));
    gate.open();
    const replay = { ...(await first), isReplayed: true };
    for (const each of await Promise.all(waiting)) expect(each).toEqual(replay);
    const replays = await Promise.all(Array.from({ length: 20 }, () => send('file')));
    for (const each of replays) expect(each).toEqual(replay);
    expect(replay.digest).toBe(digestOf(1));
    expect(run.executions).toBe(1);
  });

  it('is no longer read when its reader has left', async () => {
    const files = fileBlobs({ directory: run.directory, fsync: false });
    const opened = openedOf(files);
    const { app, send } = await start(platform, { blobs: files });
    await send('file');
    const before = opened.length;
    const replay = ask(app.port, 'file', 'k').end();
    const [response] = (await once(replay, 'response')) as [IncomingMessage];
    await once(response, 'readable');
    replay.destroy();
    await until(() => opened.length > before && opened.every(({ destroyed }) => destroyed));
  });
});
