import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { request, type ClientRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach } from '@jest/globals';
import { Controller, Header, HttpCode, Post, Res, StreamableFile } from '@nestjs/common';
import {
  IdempotencyEvents,
  Idempotent,
  type IdempotencyEvent,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { fileBlobs } from 'nestjs-idempotency/blobs/file';
import { memoryStore } from 'nestjs-idempotency/memory';
import { BlobUnavailableError, type BlobStore } from 'nestjs-idempotency/store';
import { ALICE } from '../../../support/http/callers.guard.js';
import type { Platform } from '../../../support/http/combinations.js';
import { takeRaw, type FastifyReply, type Reply } from '../../../support/http/reply.js';
import { bytesOf, streamOf } from '../../../support/http/streamed-bodies.js';
import { startApp, type StartAppOptions, type TestApp } from '../../../support/http/start-app.js';
import type { OutcomeOptions } from '../../../support/internals/core.js';
import { Gate } from '../../../support/waiting/gate.js';

export const MAX_BYTES = 100_000;
export const LARGE = 3_000_001;
/** More than the sockets of a client that does not read take in. */
export const HUGE = 24_000_000;

const apps: TestApp[] = [];

/** What happens in one test. */
export const run = {
  /** Of the blobs. */
  directory: '',
  executions: 0,
  /** What each handler that waits had written when it did so last. */
  heldAt: [] as number[],
  form: {} as { readonly isCompressible?: boolean; readonly failsAfter?: number },
};

beforeEach(async () => {
  run.directory = await mkdtemp(join(tmpdir(), 'idempotency-blobs-'));
  run.executions = 0;
  run.heldAt = [];
  run.form = {};
});
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
  await rm(run.directory, { recursive: true, force: true });
});

const next = () => streamOf((run.executions += 1), LARGE, run.form);

/** With or without regard to what `write` returns. */
async function write(response: ServerResponse, isPatient: boolean, length = LARGE): Promise<void> {
  const execution = (run.executions += 1);
  let bytes = 0;
  for (const chunk of bytesOf(execution, length)) {
    bytes += chunk.length;
    if (response.write(chunk) || !isPatient) continue;
    run.heldAt[execution - 1] = bytes;
    await once(response, 'drain');
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

  /** It does not wait long for the blob store. */
  @Post('impatient')
  @Idempotent({ outcome: { offload: { putTimeout: '200ms' } } })
  impatient(@Res() reply: NativeReply) {
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

  @Post('measured')
  @Idempotent()
  measured() {
    return new StreamableFile(next(), { length: LARGE });
  }

  /** It has more bytes than it announced. */
  @Post('longer')
  @Idempotent()
  longer() {
    return new StreamableFile(next(), { length: LARGE - 200_000 });
  }

  @Post('huge')
  @Idempotent()
  huge() {
    return new StreamableFile(streamOf((run.executions += 1), HUGE));
  }

  @Post('bodiless')
  @Idempotent()
  @HttpCode(304)
  bodiless() {
    return new StreamableFile(next());
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
    reply.send(Buffer.concat([...bytesOf((run.executions += 1), LARGE)]));
  }
}

export interface Started {
  readonly app: TestApp;
  readonly events: readonly IdempotencyEvent[];
  readonly send: (path: string, key?: string) => Promise<Sent>;
}

export interface Sent {
  readonly status: number;
  readonly isReplayed: boolean;
  readonly type: string | undefined;
  readonly length: string | undefined;
  readonly bytes: number;
  readonly digest: string;
  readonly problem: string | undefined;
  readonly error: string | undefined;
}

export type Options = Pick<
  IdempotencyModuleOptions,
  'outcome' | 'secrets' | 'duplicates' | 'lease' | 'storeErrors' | 'limits'
> & {
  readonly blobs?: BlobStore;
};

export async function start(
  platform: Platform,
  options: Options = {},
  others?: Partial<StartAppOptions>,
): Promise<Started> {
  const { outcome, ...rest } = options;
  const app = await startApp({
    platform,
    controllers: [Files],
    store: memoryStore(),
    guard: ALICE,
    ...others,
    options: {
      blobs: fileBlobs({ directory: run.directory, fsync: false }),
      ...rest,
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
  return receive(ask(port, path, key)).sent;
}

/** What a client has got, also before it has all. */
export class Received {
  bytes = 0;
}

/** Sends a request. Its response is read from `reading` on. */
export function receive(
  asking: ClientRequest,
  reading: Promise<unknown> = Promise.resolve(),
): Received & { readonly sent: Promise<Sent> } {
  const received = new Received();
  const sent = once(asking.end(), 'response').then(async ([response]) => {
    await reading;
    return read(response as IncomingMessage, received);
  });
  return Object.assign(received, { sent });
}

async function read(response: IncomingMessage, received: Received): Promise<Sent> {
  const digest = createHash('sha256');
  const beginning: Buffer[] = [];
  let error: string | undefined;
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      if (received.bytes < 10_000) beginning.push(chunk);
      received.bytes += chunk.length;
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
    bytes: received.bytes,
    digest: digest.digest('hex'),
    problem: isProblem
      ? (JSON.parse(Buffer.concat(beginning).toString()) as { code: string }).code
      : undefined,
    error,
  };
}

export const ask = (port: number, path: string, key: string) =>
  request({ port, path: `/${path}`, method: 'POST', headers: { 'idempotency-key': key } });

/** The digest of what an execution has sent. */
export function digestOf(execution: number, length = LARGE): string {
  const digest = createHash('sha256');
  for (const chunk of bytesOf(execution, length, run.form.isCompressible)) digest.update(chunk);
  return digest.digest('hex');
}

/** The blobs, by their paths. */
export async function blobs(): Promise<string[]> {
  const files: string[] = [];
  for (const name of await readdir(run.directory, { recursive: true })) {
    if (!name.startsWith('tmp') && (await stat(join(run.directory, name))).isFile())
      files.push(name);
  }
  return files;
}

export const waysOn = (platform: Platform) => [
  'file',
  'pipe',
  'writes',
  'hasty',
  'buffer',
  ...(platform === 'fastify' ? ['send'] : []),
];

/** A store that fails, or stands still, once it has so many bytes. */
export function failingAfter(bytes: number, isMute = false): BlobStore {
  const files = fileBlobs({ directory: run.directory, fsync: false });
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

/**
 * A store that takes the first bytes, and the rest only when it is let go on.
 * @param pace - it takes all bytes, but none before this resolves for those that it has.
 */
export function gated(pace?: (taken: number) => Promise<void>) {
  const files = fileBlobs({ directory: run.directory, fsync: false });
  const gate = Gate.closed();
  const arrived = Gate.closed();
  const put: BlobStore['put'] = (name, source, hints) => {
    if (name.includes('/probe/')) return files.put(name, source, hints);
    const slow = async function* () {
      let taken = 0;
      for await (const chunk of source) {
        yield chunk as Buffer;
        taken += (chunk as Buffer).length;
        if (pace === undefined) {
          arrived.open();
          await gate.pass();
        } else {
          await pace(taken);
        }
      }
      arrived.open();
      await gate.pass();
    };
    return files.put(name, Readable.from(slow()), hints);
  };
  return { blobs: Object.create(files, { put: { value: put } }) as BlobStore, gate, arrived };
}

export function connectionsOf({ nest }: TestApp): Promise<number> {
  return new Promise((resolve, reject) => {
    nest.getHttpServer().getConnections((error: Error | null, count: number) => {
      if (error === null) resolve(count);
      else reject(error);
    });
  });
}
