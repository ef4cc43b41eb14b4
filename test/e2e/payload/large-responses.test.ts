import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  appendFile,
  copyFile,
  mkdtemp,
  readdir,
  rename,
  rm,
  stat,
  truncate,
} from 'node:fs/promises';
import { request, type IncomingMessage, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Controller, Header, Post, Res, StreamableFile } from '@nestjs/common';
import {
  IdempotencyEvents,
  Idempotent,
  staticKeys,
  type IdempotencyEvent,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { fileBlobs } from 'nestjs-idempotency/blobs/file';
import { memoryStore } from 'nestjs-idempotency/memory';
import { BlobUnavailableError, type BlobStore } from 'nestjs-idempotency/store';
import { ALICE } from '../../support/http/callers.guard.js';
import { platforms, type Platform } from '../../support/http/combinations.js';
import { Http2Client, reset } from '../../support/http/wire/http2-client.js';
import { takeRaw, type FastifyReply, type Reply } from '../../support/http/reply.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import type { OutcomeOptions } from '../../support/internals/core.js';
import { Gate } from '../../support/waiting/gate.js';
import { until } from '../../support/waiting/until.js';
import { bytesOf, streamOf } from '../../support/http/streamed-bodies.js';

const MAX_BYTES = 100_000;
const LARGE = 3_000_001;
const KEYS = staticKeys({ current: 'k1', keys: { k1: Buffer.alloc(32, 1) } });

const apps: TestApp[] = [];
let directory: string;
let executions: number;
let form: { readonly isCompressible?: boolean; readonly failsAfter?: number };

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'idempotency-blobs-'));
  executions = 0;
  form = {};
});
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
  await rm(directory, { recursive: true, force: true });
});

const next = () => streamOf((executions += 1), LARGE, form);

/** With or without regard to what `write` returns. */
async function write(response: ServerResponse, isPatient: boolean, length = LARGE): Promise<void> {
  for (const chunk of bytesOf((executions += 1), length)) {
    if (!response.write(chunk) && isPatient) await once(response, 'drain');
  }
  response.end();
}

type NativeReply = ServerResponse | FastifyReply;

@Controller()
class Files {
  @Post('file')
  @Idempotent()
  @Header('content-type', 'application/pdf')
  file() {
    return new StreamableFile(next());
  }

  @Post('pipe')
  @Idempotent()
  pipe(@Res() reply: NativeReply) {
    next().pipe(takeRaw(reply));
  }

  @Post('writes')
  @Idempotent()
  writes(@Res() reply: NativeReply) {
    return write(takeRaw(reply), true);
  }

  @Post('hasty')
  @Idempotent()
  hasty(@Res() reply: NativeReply) {
    return write(takeRaw(reply), false);
  }

  @Post('too-hasty')
  @Idempotent()
  tooHasty(@Res() reply: NativeReply) {
    return write(takeRaw(reply), false, 32_000_000);
  }

  /** Its source ends early, without an error. */
  @Post('announced')
  @Idempotent()
  announced() {
    return new StreamableFile(next(), { length: LARGE + 1 });
  }

  @Post('send')
  @Idempotent()
  send(@Res() reply: FastifyReply) {
    reply.header('content-type', 'text/csv').send(next());
  }

  @Post('buffer')
  @Idempotent()
  buffer(@Res() reply: Reply) {
    reply.send(Buffer.concat([...bytesOf((executions += 1), LARGE)]));
  }
}

interface Started {
  readonly app: TestApp;
  readonly events: readonly IdempotencyEvent[];
  readonly send: (path: string, key?: string) => Promise<Sent>;
}

interface Sent {
  readonly status: number;
  readonly isReplayed: boolean;
  readonly type: string | undefined;
  readonly length: string | undefined;
  readonly bytes: number;
  readonly digest: string;
  readonly problem: string | undefined;
  readonly error: string | undefined;
}

type Options = Pick<IdempotencyModuleOptions, 'outcome' | 'secrets' | 'duplicates' | 'lease'> & {
  readonly blobs?: BlobStore;
};

async function start(platform: Platform, options: Options = {}, http2 = false): Promise<Started> {
  const { outcome, ...others } = options;
  const app = await startApp({
    platform,
    http2,
    controllers: [Files],
    store: memoryStore(),
    guard: ALICE,
    options: {
      blobs: fileBlobs({ directory, fsync: false }),
      ...others,
      outcome: {
        maxBytes: MAX_BYTES,
        offload: { aboveBytes: 50_000 },
        ...(outcome as OutcomeOptions | undefined),
      },
    },
  });
  apps.push(app);
  const events: IdempotencyEvent[] = [];
  app.nest
    .get(IdempotencyEvents, { strict: false })
    .subscribe((event) => void events.push(event), { replacesLog: true });
  return { app, events, send: (path, key = 'k') => sendTo(app.port, path, key) };
}

async function sendTo(port: number, path: string, key: string): Promise<Sent> {
  const [response] = (await once(ask(port, path, key).end(), 'response')) as [IncomingMessage];
  const digest = createHash('sha256');
  const beginning: Buffer[] = [];
  let bytes = 0;
  let error: string | undefined;
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      if (bytes < 10_000) beginning.push(chunk);
      bytes += chunk.length;
      digest.update(chunk);
    }
  } catch (cause) {
    error = (cause as NodeJS.ErrnoException).code;
  }
  const { headers, statusCode: status = 0 } = response;
  const isProblem = headers['content-type']?.includes('problem') === true;
  return {
    status,
    isReplayed: headers['idempotent-replayed'] === 'true',
    type: headers['content-type'],
    length: headers['content-length'],
    bytes,
    digest: digest.digest('hex'),
    problem: isProblem
      ? (JSON.parse(Buffer.concat(beginning).toString()) as { code: string }).code
      : undefined,
    error,
  };
}

const ask = (port: number, path: string, key: string) =>
  request({ port, path: `/${path}`, method: 'POST', headers: { 'idempotency-key': key } });

/** The digest of what an execution has sent. */
function digestOf(execution: number, length = LARGE): string {
  const digest = createHash('sha256');
  for (const chunk of bytesOf(execution, length, form.isCompressible)) digest.update(chunk);
  return digest.digest('hex');
}

/** The blobs, by their paths. */
async function blobs(): Promise<string[]> {
  const files: string[] = [];
  for (const name of await readdir(directory, { recursive: true })) {
    if (!name.startsWith('tmp') && (await stat(join(directory, name))).isFile()) files.push(name);
  }
  return files;
}

const waysOn = (platform: Platform) => [
  'file',
  'pipe',
  'writes',
  'hasty',
  'buffer',
  ...(platform === 'fastify' ? ['send'] : []),
];

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
      expect(executions).toBe(1);
      expect(events.map(({ type }) => type)).toContain('completed');
      expect(events.map(({ type }) => type)).not.toContain('pack_failed');
    },
  );

  it.each(FORMS)('is the same where it is stored %s', async (_, isCompressible, options) => {
    form = { isCompressible };
    const { send } = await start(platform, options);
    const first = await send('file');
    expect(first).toMatchObject({ status: 201, bytes: LARGE, digest: digestOf(1) });
    const [path = ''] = await blobs();
    const { size } = await stat(join(directory, path));
    if (isCompressible) expect(size).toBeLessThan(LARGE / 2);
    else expect(size).toBeGreaterThanOrEqual(LARGE);
    expect(await send('file')).toEqual({ ...first, isReplayed: true });
    expect(executions).toBe(1);
  });
});

/** A store that fails, or stands still, once it has so many bytes. */
function failingAfter(bytes: number, isMute = false): BlobStore {
  const files = fileBlobs({ directory, fsync: false });
  const put: BlobStore['put'] = async (name, source, hints) => {
    // Of the start.
    if (name.includes('/probe/')) return files.put(name, source, hints);
    const { signal } = hints;
    let taken = 0;
    for await (const chunk of source.iterator({ destroyOnReturn: false })) {
      taken += (chunk as Buffer).length;
      if (taken > bytes) break;
    }
    if (!isMute) throw new BlobUnavailableError('the disk is full');
    await new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error));
    });
  };
  return Object.create(files, { put: { value: put } }) as BlobStore;
}

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
      expect(executions).toBe(1);
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
    expect(executions).toBe(1);
    expect(failures(events)).toEqual([errorType]);
  });
});

/** A store that takes the first bytes, and the rest only when it is let go on. */
function gated() {
  const files = fileBlobs({ directory, fsync: false });
  const gate = Gate.closed();
  const arrived = Gate.closed();
  const put: BlobStore['put'] = (name, source, hints) => {
    if (name.includes('/probe/')) return files.put(name, source, hints);
    const slow = async function* () {
      for await (const chunk of source) {
        yield chunk as Buffer;
        arrived.open();
        await gate.pass();
      }
    };
    return files.put(name, Readable.from(slow()), hints);
  };
  return { blobs: Object.create(files, { put: { value: put } }) as BlobStore, gate, arrived };
}

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
      expect(executions).toBe(1);
    },
  );
});

it.each(['file', 'send'])(
  'Over HTTP/2, a client that leaves while a large body is stored finds the outcome of /%s later, and nothing stays open',
  async (path) => {
    const { blobs: store, gate, arrived } = gated();
    const opened = openedOf(store);
    const { app, events } = await start('fastify', { blobs: store }, true);
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
    expect(executions).toBe(1);
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

function connectionsOf({ nest }: TestApp): Promise<number> {
  return new Promise((resolve, reject) => {
    nest.getHttpServer().getConnections((error: Error | null, count: number) => {
      if (error === null) resolve(count);
      else reject(error);
    });
  });
}

describe.each(platforms)('On %s, a large body whose source fails', (platform) => {
  it('is never stored as a whole, and runs once', async () => {
    form = { failsAfter: 1_000_000 };
    const { send, events } = await start(platform);
    const first = await send('file').catch(() => ({ status: 0 }));
    expect(first.status).not.toBe(201);
    await until(() => events.some(({ type }) => type === 'ended'));
    expect(await blobs()).toEqual([]);
    const retry = await send('file');
    // A response in its place is an outcome like any other.
    expect([409, 500]).toContain(retry.status);
    expect(executions).toBe(1);
  });

  it('silently, before the announced length, is the same', async () => {
    const { send } = await start(platform);
    expect(await send('announced')).toMatchObject(NOT_KEPT);
    expect(await blobs()).toEqual([]);
    expect(await send('announced')).toMatchObject(NOT_KEPT);
    expect(executions).toBe(1);
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
      await fault(join(directory, path), join(directory, other));
      const replay = await send('file');
      expect(replay).toMatchObject(expected);
      if (replay.error !== undefined) expect(replay.bytes).toBeLessThan(LARGE);
      expect(executions).toBe(2);
      expect(events).toContainEqual(
        expect.objectContaining({ type: 'outcome_unreadable', reason }),
      );
    },
  );

  it('that cannot be reached: 503, until it can', async () => {
    const { send } = await start(platform);
    const first = await send('file');
    await rename(directory, `${directory}-away`);
    expect(await send('file')).toMatchObject({ status: 503, isReplayed: false });
    await rename(`${directory}-away`, directory);
    expect(await send('file')).toEqual({ ...first, isReplayed: true });
    expect(executions).toBe(1);
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
    expect(executions).toBe(1);
  });

  it('is no longer read when its reader has left', async () => {
    const files = fileBlobs({ directory, fsync: false });
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
