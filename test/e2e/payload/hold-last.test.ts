import { once } from 'node:events';
import { copyFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { constants, type ClientHttp2Stream } from 'node:http2';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import type { NestExpressApplication } from '@nestjs/platform-express';
import compression from 'compression';
import { staticKeys } from 'nestjs-idempotency';
import { s3Blobs } from 'nestjs-idempotency/blobs/s3';
import { memoryStore } from 'nestjs-idempotency/memory';
import { postgresBlobs } from 'nestjs-idempotency/postgres';
import { clientAt, S3Gateway, startS3rver } from '../../integration/blobs/support/s3-server.js';
import { platforms } from '../../support/http/combinations.js';
import { Http2Client } from '../../support/http/wire/http2-client.js';
import type { OutcomeOptions } from '../../support/internals/core.js';
import { afterTest } from '../../support/jest/after-test.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { useServer } from '../../support/servers/use-server.js';
import { FaultyStore, heldReply, lostRequest } from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { until } from '../../support/waiting/until.js';
import {
  ask,
  blobs,
  connectionsOf,
  digestOf,
  failingAfter,
  gated,
  HUGE,
  LARGE,
  receive,
  run,
  start,
  waysOn,
  type Options,
} from './support/large-files.js';

const HELD = 65_536;
const LEASE_MS = 60_000;
const OFFLOAD = { aboveBytes: 50_000, delivery: 'hold-last' } as const;
const HOLD_LAST = { outcome: { offload: OFFLOAD } } satisfies Options;
const KEYS = staticKeys({ current: 'k1', keys: { k1: Buffer.alloc(32, 1) } });
const CUT = { status: 201, error: 'ECONNRESET' };
const NOT_KEPT = { status: 409, problem: 'idempotency_response_not_kept' };

/** A store that takes all but the end at once. */
const atOnce = () => Promise.resolve();

const streamed = (platform: (typeof platforms)[number]) =>
  waysOn(platform).filter((path) => path !== 'buffer');

describe.each(platforms)('On %s, a large body that is sent while it is stored', (platform) => {
  it.each([...streamed(platform).filter((path) => path !== 'hasty'), 'measured'])(
    'by /%s reaches its client but for its end, which waits for blob and record',
    async (path) => {
      // A client that is far behind gets the rest later.
      const keepUp = (taken: number) => until(() => first.bytes >= taken - HELD - 500_000);
      const { blobs: store, gate, arrived } = gated(keepUp);
      const completing = Gate.closed();
      const records = new FaultyStore(memoryStore());
      records.next('complete', heldReply(completing));
      const options = { ...HOLD_LAST, blobs: store };
      const { app, send } = await start(platform, options, { store: records });
      const first = receive(ask(app.port, path, 'k'));
      await arrived.pass();
      await until(() => first.bytes === LARGE - HELD);
      expect(await blobs()).toEqual([]);
      gate.open();
      await until(() => records.sentOf('complete').length === 1);
      expect(await blobs()).toHaveLength(1);
      expect(await send(path)).toMatchObject({ problem: undefined, status: 201, isReplayed: true });
      expect(first.bytes).toBe(LARGE - HELD);
      completing.open();
      expect(await first.sent).toMatchObject({
        status: 201,
        isReplayed: false,
        length: path === 'measured' ? String(LARGE) : undefined,
        bytes: LARGE,
        digest: digestOf(1),
        error: undefined,
      });
      expect(await send(path)).toMatchObject({
        isReplayed: true,
        length: String(LARGE),
        digest: digestOf(1),
      });
      expect(run.executions).toBe(1);
    },
  );

  it.each<[string, Options]>([
    ['compressed', { outcome: { offload: OFFLOAD, compression: true } }],
    ['encrypted', { ...HOLD_LAST, secrets: KEYS }],
  ])('is the same where it is stored %s', async (form, options) => {
    run.form = { isCompressible: form === 'compressed' };
    const { send } = await start(platform, options);
    const whole = { status: 201, bytes: LARGE, digest: digestOf(1), error: undefined };
    expect(await send('file')).toMatchObject({ ...whole, isReplayed: false });
    expect(await send('file')).toMatchObject({ ...whole, isReplayed: true });
    expect(run.executions).toBe(1);
  });

  it.each([...streamed(platform), 'measured'])(
    'by /%s is cut where the blob store fails, and does not run again',
    async (path) => {
      const { send, events } = await start(platform, {
        ...HOLD_LAST,
        blobs: failingAfter(1_000_000),
      });
      const first = await send(path);
      expect(first).toMatchObject(CUT);
      expect(first.bytes).toBeLessThan(LARGE);
      await until(() => events.some(({ type }) => type === 'ended'));
      expect(await send(path)).toMatchObject(NOT_KEPT);
      expect(run.executions).toBe(1);
      expect(events.filter(({ type }) => type === 'pack_failed')).toHaveLength(1);
    },
  );

  it.each(['announced', 'longer'])(
    'by /%s is never whole where it has another length than it announced',
    async (path) => {
      const { send, events } = await start(platform, HOLD_LAST);
      const first = await send(path);
      expect(first).toMatchObject(CUT);
      expect(first.bytes).toBeLessThan(path === 'longer' ? LARGE - 200_000 : LARGE);
      await until(() => events.some(({ type }) => type === 'ended'));
      expect(await send(path)).toMatchObject(NOT_KEPT);
      expect(await blobs()).toEqual([]);
      expect(run.executions).toBe(1);
    },
  );

  it('is cut where its source fails', async () => {
    run.form = { failsAfter: 1_000_000 };
    const { send, events } = await start(platform, HOLD_LAST);
    expect(await send('file')).toMatchObject(CUT);
    await until(() => events.some(({ type }) => type === 'ended'));
    expect(await send('file')).toMatchObject(NOT_KEPT);
    expect(await blobs()).toEqual([]);
    expect(run.executions).toBe(1);
  });

  it.each(streamed(platform))(
    'by /%s is cut where another attempt has its record, whose outcome a retry gets',
    async (path) => {
      let now = Date.now();
      const store = memoryStore({ now: () => now });
      const { blobs: held, gate, arrived } = gated(atOnce);
      const lease = { duration: LEASE_MS, onTakeover: 'run' } as const;
      const loser = await start(platform, { ...HOLD_LAST, lease, blobs: held }, { store });
      const winner = await start(platform, { ...HOLD_LAST, lease }, { store });
      const first = receive(ask(loser.app.port, path, 'k'));
      await arrived.pass();
      now += LEASE_MS + 1;
      const whole = { status: 201, bytes: LARGE, digest: digestOf(2) };
      expect(await winner.send(path)).toMatchObject(whole);
      gate.open();
      expect(await first.sent).toMatchObject(CUT);
      expect(first.bytes).toBeLessThanOrEqual(LARGE - HELD);
      expect(await loser.send(path)).toMatchObject({ ...whole, isReplayed: true });
      expect(run.executions).toBe(2);
    },
  );

  it.each<['error' | 'respond', object]>([
    ['error', CUT],
    ['respond', { status: 201, error: undefined }],
  ])(
    'is as storeErrors.whenNotSaved: "%s" says while its outcome is not confirmed',
    async (whenNotSaved, expected) => {
      const store = new FaultyStore(memoryStore());
      store.always(lostRequest, 'complete');
      const storeErrors = { whenNotSaved, saveTimeout: '100ms' } as const;
      const { send } = await start(platform, { ...HOLD_LAST, storeErrors }, { store });
      expect(await send('file')).toMatchObject(expected);
      store.heal();
    },
  );

  it.each(streamed(platform))('by /%s is stored though its client has left', async (path) => {
    const { blobs: store, gate, arrived } = gated();
    const { app, send, events } = await start(platform, { ...HOLD_LAST, blobs: store });
    const lost = ask(app.port, path, 'k').end();
    lost.once('error', () => undefined);
    await arrived.pass();
    lost.destroy();
    await until(async () => (await connectionsOf(app)) === 0);
    gate.open();
    await until(() => events.some(({ type }) => type === 'ended'));
    const whole = { status: 201, isReplayed: true, bytes: LARGE, digest: digestOf(1) };
    expect(await send(path)).toMatchObject(whole);
    expect(run.executions).toBe(1);
  });

  it('is stored, and its key free, before a slow client has it, who gets the rest from the store', async () => {
    const { app, events } = await start(platform, HOLD_LAST);
    const reading = Gate.closed();
    const slow = receive(ask(app.port, 'huge', 'k'), reading.pass());
    await until(() => events.some(({ type }) => type === 'ended'));
    expect(slow.bytes).toBe(0);
    reading.open();
    expect(await slow.sent).toMatchObject({
      bytes: HUGE,
      digest: digestOf(1, HUGE),
      error: undefined,
    });
  });

  it('is stored first for a client of HTTP/1.0, which could not tell that it was cut', async () => {
    const { blobs: store, gate, arrived } = gated(atOnce);
    const { app } = await start(platform, { ...HOLD_LAST, blobs: store });
    const socket = connect(app.port, '127.0.0.1');
    const chunks: Buffer[] = [];
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.write('POST /file HTTP/1.0\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n');
    await arrived.pass();
    expect(chunks).toEqual([]);
    gate.open();
    await once(socket, 'close');
    const reply = Buffer.concat(chunks);
    const end = reply.indexOf('\r\n\r\n');
    expect(reply.toString('latin1', 0, end).toLowerCase()).toContain(`content-length: ${LARGE}`);
    expect(reply.length - end - 4).toBe(LARGE);
  });

  it('is stored first where its response has no body', async () => {
    const { send } = await start(platform, {
      outcome: { offload: OFFLOAD, keep: () => true } as OutcomeOptions,
    });
    const first = await send('bodiless');
    expect(first).toMatchObject({ status: 304, bytes: 0, isReplayed: false, error: undefined });
    expect(await send('bodiless')).toEqual({ ...first, isReplayed: true });
    expect(run.executions).toBe(1);
  });
});

it('A body that compression changes on its way is stored as its handler wrote it', async () => {
  run.form = { isCompressible: true };
  const { app, send } = await start('express', HOLD_LAST, {
    configure: (nest) => (nest as NestExpressApplication).use(compression({ filter: () => true })),
  });
  const asking = ask(app.port, 'pipe', 'k');
  asking.setHeader('accept-encoding', 'gzip');
  const [response] = (await once(asking.end(), 'response')) as [IncomingMessage];
  expect(response.headers['content-encoding']).toBe('gzip');
  response.resume();
  await once(response, 'end');
  expect(await send('pipe')).toMatchObject({ isReplayed: true, bytes: LARGE, digest: digestOf(1) });
});

describe.each(['S3', 'PostgreSQL'])(
  'In %s, a large body that is sent while it is stored',
  (where) => {
    const server = usePostgres();
    const s3 = useServer(() => startS3rver());

    /** Of which nothing, or only a beginning, is stored after {@link fail}. */
    async function place() {
      if (where === 'S3') {
        const gateway = await S3Gateway.start(s3.port);
        afterTest(() => gateway.stop());
        const client = clientAt(gateway.url, { maxAttempts: 1 });
        afterTest(() => client.destroy());
        return {
          store: s3Blobs({ client, bucket: 'outcomes' }),
          fail: () => {
            gateway.follow(({ method }) => (method === 'PUT' ? 'cut the request' : 'none'));
            return Promise.resolve();
          },
        };
      }
      const url = await server.newDatabase();
      const store = postgresBlobs({ url });
      await store.migrate();
      const pool = openPostgresPool(url);
      afterTest(() => pool.end());
      const full =
        'ALTER TABLE idempotency_blobs ADD CONSTRAINT full_disk CHECK (part < 1) NOT VALID';
      return {
        store,
        fail: async () => {
          await pool.query(full);
        },
      };
    }

    it('is whole, and replayed; and cut where the store fails, and not run again', async () => {
      const { store, fail } = await place();
      const { send, events } = await start('express', { ...HOLD_LAST, blobs: store });
      const whole = { status: 201, bytes: LARGE, digest: digestOf(1), error: undefined };
      expect(await send('file')).toMatchObject({ ...whole, isReplayed: false, length: undefined });
      expect(await send('file')).toMatchObject({
        ...whole,
        isReplayed: true,
        length: String(LARGE),
      });
      await fail();
      expect(await send('file', 'failing')).toMatchObject(CUT);
      await until(() => events.filter(({ type }) => type === 'ended').length === 2);
      expect(await send('file', 'failing')).toMatchObject(NOT_KEPT);
      expect(run.executions).toBe(2);
    });
  },
);

describe('Over HTTP/2, a large body', () => {
  async function over(options: Options, use: (client: Http2Client) => Promise<void>) {
    const { app } = await start('fastify', options, { http2: true });
    const client = await Http2Client.connect(app.port);
    await use(client).finally(() => {
      client.close();
    });
  }

  async function bytesAndCode(stream: ClientHttp2Stream) {
    let bytes = 0;
    stream.on('data', (chunk: Buffer) => (bytes += chunk.length));
    // Not by once(), which rejects at an error.
    await new Promise((resolve) => stream.once('close', resolve));
    return { bytes, code: stream.rstCode };
  }

  const post = (client: Http2Client, path: string) =>
    bytesAndCode(client.openBodiless(`/${path}`, { 'idempotency-key': 'k' }));

  it.each(['file', 'pipe'])('by /%s is sent while it is stored', async (path) => {
    await over(HOLD_LAST, async (client) => {
      expect(await post(client, path)).toEqual({ bytes: LARGE, code: constants.NGHTTP2_NO_ERROR });
      expect(await post(client, path)).toEqual({ bytes: LARGE, code: constants.NGHTTP2_NO_ERROR });
      expect(run.executions).toBe(1);
    });
  });

  it.each(['file', 'pipe'])('by /%s is cut where the blob store fails', async (path) => {
    await over({ ...HOLD_LAST, blobs: failingAfter(1_000_000) }, async (client) => {
      const { bytes, code } = await post(client, path);
      expect(bytes).toBeLessThan(LARGE);
      expect(code).toBe(constants.NGHTTP2_INTERNAL_ERROR);
    });
  });

  it.each(['file', 'pipe'])('by /%s is cut where its blob is another one', async (path) => {
    await over({}, async (client) => {
      await post(client, path);
      const [blob = ''] = await blobs();
      await bytesAndCode(client.openBodiless(`/${path}`, { 'idempotency-key': 'other' }));
      const other = (await blobs()).find((each) => each !== blob)!;
      await copyFile(join(run.directory, other), join(run.directory, blob));
      const { bytes, code } = await post(client, path);
      expect(bytes).toBeLessThan(LARGE);
      expect(code).toBe(constants.NGHTTP2_INTERNAL_ERROR);
    });
  });
});
