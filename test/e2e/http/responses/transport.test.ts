import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import fastifyCompress from '@fastify/compress';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  Body,
  ConflictException,
  Controller,
  Header,
  HttpCode,
  type INestApplication,
  Param,
  Post,
  Put,
  Res,
  StreamableFile,
} from '@nestjs/common';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import compression from 'compression';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { type Platform, platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import {
  type ExpressResponse,
  type FastifyReply,
  type Reply,
  takeRaw,
} from '../../../support/http/reply.js';
import {
  after,
  controllerOf,
  native,
  routesOf,
  withReply,
} from '../../../support/http/routes-of.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { Http2Client, reset, responseOn } from '../../../support/http/wire/http2-client.js';
import { OpenConnection } from '../../../support/http/wire/open-connection.js';
import { parseResponse, type RawResponse } from '../../../support/http/wire/raw-response.js';
import { useServer } from '../../../support/servers/use-server.js';
import { type FaultyStore, unavailable } from '../../../support/stores/faulty-store.js';
import { slowStore } from '../../../support/stores/slow-store.js';
import { Tally } from '../../../support/waiting/tally.js';
import { until } from '../../../support/waiting/until.js';

describe('back pressure', () => {
  const CHUNK = Buffer.alloc(20_000, 'x');
  const CHUNKS = 200;

  /** Has all of its chunks ready, and counts those that were read. */
  function* source(taken: Tally): Generator<Buffer> {
    for (let i = 0; i < CHUNKS; i += 1) {
      taken.add();
      yield CHUNK;
    }
  }

  type Way = (raw: ServerResponse, chunks: Generator<Buffer>) => Promise<void>;

  /** The ways to write a large response no faster than the client reads it. */
  const WAYS: Record<string, Way> = {
    'the callback of write()': async (raw, chunks) => {
      for (const chunk of chunks) await new Promise((resolve) => raw.write(chunk, resolve));
      raw.end();
    },
    'the return value of write()': async (raw, chunks) => {
      for (const chunk of chunks) if (!raw.write(chunk)) await once(raw, 'drain');
      raw.end();
    },
    writableNeedDrain: async (raw, chunks) => {
      for (const chunk of chunks) {
        raw.write(chunk);
        if (raw.writableNeedDrain) await once(raw, 'drain');
      }
      raw.end();
    },
    'pipeline()': (raw, chunks) => pipeline(chunks, raw),
  };

  const done = new Tally();

  @Controller()
  class BackPressureController {
    @Post('ways/:way')
    @Idempotent({
      outcome: { maxBytes: 1_000 },
      storeErrors: { whenNotSaved: 'error', saveTimeout: 100 },
    })
    async write(
      @InScenario() scenario: Scenario,
      @Res() reply: ExpressResponse | FastifyReply,
      @Param('way') way: string,
    ) {
      await scenario.run();
      const taken = new Tally();
      setImmediate(() => scenario.notes.push(taken.count));
      try {
        await WAYS[way]!(takeRaw(reply), source(taken));
      } finally {
        done.add();
      }
    }
  }

  describe.each(platforms)('back pressure on %s', (platform) => {
    const failing = slowStore();
    failing.always(unavailable, 'complete');
    const started = (store: FaultyStore) =>
      useServer(() =>
        startApp({
          platform,
          store,
          controllers: [BackPressureController],
          options: { limits: { shutdownTimeout: 100 } },
        }),
      );
    const app = started(slowStore());
    const appThatCannotSave = started(failing);

    describe.each(Object.keys(WAYS))('a source that respects %s', (way) => {
      const path = `/ways/${encodeURIComponent(way)}`;

      it('yields to other work, and its response arrives complete, when that is too large to store', async () => {
        const scenario = app.scenario();
        const first = await scenario.post(path);
        expect(first).toMatchObject({ status: 201, replayed: false });
        expect(first.body).toHaveLength(CHUNKS * CHUNK.length);
        // Without back pressure, the source would have been read to its end in one tick.
        expect(scenario.notes).toEqual([expect.any(Number)]);
        expect(scenario.notes[0]).toBeLessThan(CHUNKS / 10);
        expectProblem(await onceSettled(() => scenario.post(path)), 'response-not-kept');
      });

      it('is read to its end when another response was sent instead', async () => {
        const scenario = appThatCannotSave.scenario();
        const before = done.count;
        expect(await scenario.post(path)).toMatchObject({ status: 503 });
        await done.reached(before + 1);
        expect(scenario.executions).toBe(1);
      });
    });
  });
});

describe('compression', () => {
  const LINE = 'a line that says the same as the one before\n';
  const CHUNK = LINE.repeat(500);
  const CHUNKS_OF_A_LARGE_RESPONSE = 100;

  @Controller()
  class CompressedController {
    @Post('small')
    @Idempotent()
    async small(@InScenario() scenario: Scenario) {
      return { execution: await scenario.run(), text: LINE.repeat(100) };
    }

    @Post('large')
    @Idempotent({ outcome: { maxBytes: 1_000 } })
    async large(@InScenario() scenario: Scenario) {
      await scenario.run();
      return new StreamableFile(Readable.from(chunks()), { type: 'text/plain' });
    }
  }

  /** Never waits for anything itself. */
  function* chunks(): Generator<Buffer> {
    for (let i = 0; i < CHUNKS_OF_A_LARGE_RESPONSE; i += 1) yield Buffer.from(CHUNK);
  }

  function withCompression(platform: Platform): (app: INestApplication) => Promise<void> {
    return async (app) => {
      if (platform === 'express') app.use(compression({ threshold: 0 }));
      else await (app as NestFastifyApplication).register(fastifyCompress, { threshold: 0 });
    };
  }

  const accepting = (coding: string) => ({ headers: [['Accept-Encoding', coding]] }) as const;

  const codingOf = ({ lines: fields }: RawResponse) =>
    fields.find(([name]) => name.toLowerCase() === 'content-encoding')?.[1] ?? 'identity';

  function decoded(response: RawResponse): string {
    const decoders: Record<string, (body: Buffer) => Buffer> = {
      gzip: gunzipSync,
      br: brotliDecompressSync,
      identity: (body) => body,
    };
    return decoders[codingOf(response)]!(response.body).toString();
  }

  describe.each(platforms)('behind compression on %s', (platform) => {
    const app = useServer(() =>
      startApp({
        platform,
        store: memoryStore(),
        controllers: [CompressedController],
        configure: withCompression(platform),
      }),
    );

    it('encodes each response as its request accepts, with the same content', async () => {
      const scenario = app.scenario();
      const first = await scenario.post('/small', accepting('gzip'));
      expect(first).toMatchObject({ status: 201, replayed: false });
      expect(codingOf(first)).toBe('gzip');
      expect(decoded(first)).toBe(JSON.stringify({ execution: 1, text: LINE.repeat(100) }));
      for (const coding of ['br', 'gzip', 'identity']) {
        const replay = await scenario.post('/small', accepting(coding));
        expect(replay).toMatchObject({ status: 201, replayed: true });
        expect(codingOf(replay)).toBe(coding);
        expect(decoded(replay)).toBe(decoded(first));
      }
      expect(scenario.executions).toBe(1);
    });

    it.each(['gzip', 'identity'])(
      'sends a stream that is too large to store completely: %s',
      async (coding) => {
        const scenario = app.scenario();
        const first = await scenario.post('/large', accepting(coding));
        expect(first).toMatchObject({ status: 201, replayed: false });
        expect(codingOf(first)).toBe(coding);
        expect(decoded(first)).toBe(CHUNK.repeat(CHUNKS_OF_A_LARGE_RESPONSE));
        expectProblem(await onceSettled(() => scenario.post('/large')), 'response-not-kept');
        expect(scenario.executions).toBe(1);
      },
    );
  });
});

type Native = ServerResponse | FastifyReply;

const framedBy = (fields: Readonly<Record<string, string>>, ...above: MethodDecorator[]) =>
  [
    ...above,
    ...withReply((execution, reply: Reply) => {
      for (const [name, value] of Object.entries(fields)) reply.header(name, value);
      return { execution };
    }),
  ] as const;

const withoutContent = (fields: Readonly<Record<string, string>>) =>
  [
    HttpCode(204),
    ...withReply((_, reply: Reply) => {
      for (const [name, value] of Object.entries(fields)) reply.header(name, value);
    }),
  ] as const;

const FramingController = controllerOf(
  'FramingController',
  {
    chunked: framedBy({ 'Transfer-Encoding': 'chunked' }),
    trailer: framedBy({ Trailer: 'X-Sum', 'Transfer-Encoding': 'chunked' }),
    'short-length': framedBy({ 'Content-Length': '3' }),
    'file-length': after(
      () => new StreamableFile(Readable.from([Buffer.from('Café')]), { length: 5 }),
    ),
    closing: framedBy({ Connection: 'close' }),
    'no-content': withoutContent({ 'Content-Length': '0' }),
    'no-content-chunked': withoutContent({ 'Transfer-Encoding': 'chunked' }),
    'not-modified': [HttpCode(304), after(() => undefined)],
    reset: [HttpCode(205), after(() => undefined)],
    'native-chunked': native((execution, reply: Native) => {
      const raw = takeRaw(reply);
      raw.setHeader('Transfer-Encoding', 'chunked');
      raw.write(`execution ${execution}`);
      raw.end('; the end');
    }),
    'native-head': native((_, reply: Native) => {
      takeRaw(reply).writeHead(200, { 'Content-Length': 5, Connection: 'close' }).end('Café');
    }),
    'native-nothing': native((_, reply: Native) => {
      takeRaw(reply).writeHead(204).end();
    }),
    overflow: [
      Idempotent({ outcome: { maxBytes: 10 } }),
      after(
        () => new StreamableFile(Readable.from([Buffer.alloc(20, 'a'), Buffer.alloc(20, 'b')])),
      ),
    ],
    conflict: withReply((_, reply: Reply) => {
      reply.header('Transfer-Encoding', 'chunked');
      throw new ConflictException('taken');
    }),
  },
  Idempotent(),
);

/** Asked after each of the others, on the same connection. */
@Controller()
class NextController {
  @Post('next')
  next() {
    return 'the next response';
  }
}

const paths = routesOf(FramingController);

const NOTHING: Readonly<Record<string, string>> = {};

/** What middleware sets before each handler. */
const MIDDLEWARE: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'no fields': NOTHING,
  'a transfer coding': { 'Transfer-Encoding': 'chunked' },
  'names of trailers': { Trailer: 'X-Sum', 'Transfer-Encoding': 'chunked' },
};

/** The version of each request on one connection, and its own Connection field. */
const CONNECTIONS = [
  [
    ['1.1', 'keep-alive'],
    ['1.1', 'close'],
  ],
  [['1.0', 'close']],
  [
    ['1.0', 'keep-alive'],
    ['1.0', 'close'],
  ],
] as const;

function untilClosed(port: number, text: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  const socket = connect(port, '127.0.0.1', () => socket.write(text));
  return new Promise((resolve, reject) => {
    socket.on('data', (chunk: Buffer) => void chunks.push(chunk));
    socket.on('error', reject);
    socket.on('close', () => {
      resolve(Buffer.concat(chunks));
    });
  });
}

/** Reads one response as a client of its version has to, which throws where the fields contradict each other. */
function read(bytes: Buffer, version: string) {
  const { response, length } = parseResponse(bytes, 'POST')!;
  const coding = response.header('transfer-encoding');
  if (version === '1.0' || response.status === 204 || response.status === 304) {
    expect(coding).toBeUndefined();
  }
  if (response.status === 204) expect(response.header('content-length')).toBeUndefined();
  if (response.header('trailer') !== undefined) expect(coding).toBe('chunked');
  return { response, rest: bytes.subarray(length) };
}

describe.each(platforms)('on %s,', (platform) => {
  const app = useServer(() =>
    startApp({
      platform,
      store: memoryStore(),
      controllers: [FramingController, NextController],
      configure: (nest) => {
        nest.use(({ url, headers }: IncomingMessage, raw: ServerResponse, next: () => void) => {
          const fields = url === '/next' ? NOTHING : MIDDLEWARE[String(headers['x-sets'])]!;
          raw.setHeaders(new Map(Object.entries(fields)));
          next();
        });
      },
    }),
  );

  describe.each(Object.keys(MIDDLEWARE))('where middleware sets %s, the framing of', (sets) => {
    // Their retries get 409, which Nest sends with whatever middleware has set.
    const kept = paths.filter((path) => !['/overflow', '/short-length'].includes(path));
    it.each(MIDDLEWARE[sets] === NOTHING ? paths : kept)(
      '%s is described as it is, first and replayed',
      async (path) => {
        for (const connection of CONNECTIONS) {
          const scenario = app.scenario();
          const bodies: string[] = [];
          for (const isReplay of [false, true]) {
            const requests = connection.map(([version, persistence], index) =>
              [
                `POST ${index === 0 ? path : '/next'} HTTP/${version}`,
                'Host: 127.0.0.1',
                `X-Scenario: ${scenario.id}`,
                `X-Sets: ${sets}`,
                'Authorization: Bearer alice',
                `Idempotency-Key: ${scenario.key}`,
                `Connection: ${persistence}`,
                'Content-Length: 0',
                '\r\n',
              ].join('\r\n'),
            );
            const bytes = await untilClosed(app.port, requests.join(''));
            const { response, rest } = read(bytes, connection[0][0]);
            const isLast = response.header('connection') === 'close';
            if (isLast) expect(rest.toString()).toBe('');
            else expect(read(rest, connection[0][0]).response.text).toBe('the next response');
            // The rest are 409: larger than what is kept, or shorter than was said.
            if (response.replayed === isReplay) bodies.push(response.text);
          }
          expect(new Set(bodies).size).toBe(1);
          expect(scenario.executions).toBe(1);
        }
      },
    );
  });
});

describe('HTTP/2 on fastify', () => {
  const CHUNK = Buffer.alloc(60_000, 'chunk');

  @Controller()
  class Http2Controller {
    @Post('things')
    @Header('X-Own', 'kept')
    @Idempotent()
    async create(@InScenario() scenario: Scenario, @Body() body: unknown) {
      return { execution: await scenario.run(), body };
    }

    @Post('bodiless')
    @HttpCode(204)
    @Idempotent()
    async bodiless(@InScenario() scenario: Scenario) {
      await scenario.run();
    }

    @Post('streamed')
    @Idempotent()
    async streamed(@InScenario() scenario: Scenario) {
      const execution = Buffer.from(`${await scenario.run()};`);
      return new StreamableFile(Readable.from([execution, CHUNK, CHUNK]), { type: 'text/csv' });
    }

    @Post('dripping')
    @Idempotent()
    dripping(@InScenario() scenario: Scenario) {
      const source = async function* () {
        yield 'begun;';
        yield String(await scenario.run());
      };
      dripping = Readable.from(source());
      return new StreamableFile(dripping);
    }

    @Post('too-large')
    @Idempotent({ outcome: { maxBytes: 1_000 } })
    async tooLarge(@InScenario() scenario: Scenario) {
      await scenario.run();
      return new StreamableFile(Readable.from([CHUNK, CHUNK, CHUNK]));
    }

    @Post('native')
    @Idempotent()
    async native(@InScenario() scenario: Scenario, @Res() reply: FastifyReply) {
      const execution = await scenario.run();
      reply.hijack();
      reply.raw.writeHead(202, { 'X-Own': 'kept', 'Content-Type': 'text/plain' });
      reply.raw.write(`execution ${execution};`);
      reply.raw.end('the end');
    }

    @Post('native-send')
    @Idempotent()
    async nativeSend(@InScenario() scenario: Scenario, @Res() reply: FastifyReply) {
      reply
        .status(202)
        .header('Link', ['</a>', '</b>'])
        .send({ id: await scenario.run() });
    }
  }

  const JSON_TYPE = { 'content-type': 'application/json' };

  let dripping: Readable;
  let client: Http2Client;
  let scenario: Scenario;

  const app = useServer(() =>
    startApp({
      platform: 'fastify',
      http2: true,
      store: memoryStore(),
      controllers: [Http2Controller],
    }),
  );

  beforeEach(async () => {
    client = await Http2Client.connect(app.port);
    scenario = app.scenario();
  });

  afterEach(() => {
    client.close();
  });

  const fields = (key: string | readonly string[] = scenario.key) => ({
    'x-scenario': scenario.id,
    authorization: 'Bearer alice',
    'idempotency-key': key,
  });
  const post = (path: string, body?: string | Buffer, key?: string | readonly string[]) =>
    client.post(path, { ...fields(key), ...(body === undefined ? {} : JSON_TYPE) }, body);

  it.each(['/things', '/bodiless', '/streamed', '/native', '/native-send'])(
    'replays the first response of %s on the same and on another connection',
    async (path) => {
      const first = await post(path);
      expectReplay(await post(path), first);
      const other = await Http2Client.connect(app.port);
      expectReplay(await other.post(path, fields()), first);
      other.close();
      expect(scenario.executions).toBe(1);
    },
  );

  it('replays a streamed response completely', async () => {
    const first = await post('/streamed');
    expect(first.body.equals(Buffer.concat([Buffer.from('1;'), CHUNK, CHUNK]))).toBe(true);
    expectReplay(await post('/streamed'), first);
  });

  it('sends a response over the storage limit completely and does not run it again', async () => {
    const first = await post('/too-large');
    expect(first).toMatchObject({ status: 201, replayed: false });
    expect(first.body).toHaveLength(3 * CHUNK.length);
    expectProblem(await post('/too-large'), 'response-not-kept');
    expect(scenario.executions).toBe(1);
  });

  it('compares a large body to its last byte', async () => {
    const body = (last: string) => JSON.stringify({ text: 'x'.repeat(400_000) + last });
    const first = await post('/things', body('a'));
    expect(first).toMatchObject({ status: 201, replayed: false });
    expectReplay(await post('/things', body('a')), first);
    expectProblem(await post('/things', body('b')), 'key-reused');
    expect(scenario.executions).toBe(1);
  });

  it('runs thirty duplicates on one connection once', async () => {
    const responses = await Promise.all(Array.from({ length: 30 }, () => post('/things')));
    const firsts = responses.filter(({ status, replayed }) => status === 201 && !replayed);
    expect(firsts).toHaveLength(1);
    expect(scenario.executions).toBe(1);
  });

  it.each([
    ['two header lines', ['one', 'two']],
    ['two equal header lines', ['one', 'one']],
    ['a key of 64 kB', `a${' '.repeat(64_000)}b`],
  ])('rejects a request with an invalid key: %s', async (_, key) => {
    expectProblem(await post('/things', undefined, key), 'key-invalid');
    expect(scenario.executions).toBe(0);
  });

  it('gives a client that resets its stream while the handler runs the outcome on its retry', async () => {
    scenario.gate.close();
    const stream = client.openBodiless('/things', fields());
    await scenario.started.reached(1);
    await reset(stream);
    expectProblem(await post('/things'), 'in-progress');
    scenario.gate.open();
    const retry = await onceSettled(() => post('/things'));
    expect(retry).toMatchObject({ status: 201, replayed: true, json: { execution: 1 } });
    expect(scenario.executions).toBe(1);
  });

  it('does not tell the retry of a client that reset its stream midway through the response of an error', async () => {
    scenario.gate.close();
    const stream = client.openBodiless('/dripping', fields());
    await scenario.started.reached(1);
    await reset(stream);
    // By Nest.
    await until(() => dripping.destroyed);
    scenario.gate.open();
    expectProblem(await onceSettled(() => post('/dripping')), 'response-not-kept');
    expect(scenario.executions).toBe(1);
  });

  it('leaves the key unused when a client resets its stream midway through its body', async () => {
    const stream = client.open('/things', { ...fields(), ...JSON_TYPE });
    stream.write('{"amount":');
    await reset(stream);
    const first = await post('/things', '{"amount":2}');
    expect(first).toMatchObject({ status: 201, replayed: false });
    expectReplay(await post('/things', '{"amount":2}'), first);
    expect(scenario.executions).toBe(1);
  });

  it('settles the key when a client resets its stream midway through the response', async () => {
    const stream = client.openBodiless('/streamed', fields());
    await new Promise((resolve) => stream.once('response', resolve));
    await reset(stream);
    const retry = await onceSettled(() => post('/streamed'));
    expect(retry).toMatchObject({ status: 201, replayed: true });
    expect(retry.body.subarray(2).equals(Buffer.concat([CHUNK, CHUNK]))).toBe(true);
    expect(scenario.executions).toBe(1);
  });

  it('reads and compares a body without a length', async () => {
    const send = async (text: string) => {
      const stream = client.open('/things', { ...fields(), ...JSON_TYPE });
      const response = responseOn(stream);
      stream.write(text.slice(0, 5));
      stream.end(text.slice(5));
      return response;
    };
    const first = await send('{"amount":1}');
    expect(first.json).toEqual({ execution: 1, body: { amount: 1 } });
    expectReplay(await send('{"amount":1}'), first);
    expectProblem(await send('{"amount":2}'), 'key-reused');
  });

  it('rejects a body that was not read, even when no header announces it', async () => {
    const send = async (text: string) => {
      const stream = client.open('/things', fields());
      const response = responseOn(stream);
      stream.end(text);
      return response;
    };
    expectProblem(await send('one'), 'content-invalid');
    expectProblem(await send('two'), 'content-invalid');
    expect(scenario.executions).toBe(0);
  });
});

interface TrailingReply extends FastifyReply {
  trailer(name: string, value: () => Promise<string>): this;
}

@Controller()
class WireController {
  @Post('things')
  @Idempotent()
  async create(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Put('things')
  @Idempotent()
  async replace(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('ETag', '"7"').header('Last-Modified', 'Tue, 15 Nov 1994 12:45:26 GMT');
    return { execution: await scenario.run() };
  }

  @Post('not-modified')
  @HttpCode(304)
  @Idempotent()
  async notModified(
    @InScenario() scenario: Scenario,
    @Res({ passthrough: true }) reply: Reply,
  ): Promise<void> {
    reply.header('ETag', `"${await scenario.run()}"`);
  }

  @Post('native-trailer')
  @Idempotent()
  async nativeTrailer(
    @InScenario() scenario: Scenario,
    @Res() reply: ExpressResponse | FastifyReply,
  ) {
    const execution = await scenario.run();
    const raw = takeRaw(reply);
    raw.setHeader('Trailer', 'X-Checksum');
    raw.write(`execution ${execution};`);
    raw.write('the end');
    raw.addTrailers({ 'X-Checksum': `of ${execution}` });
    raw.end();
  }
}

@Controller()
class FastifyWireController {
  @Post('trailer')
  @Idempotent()
  async trailer(
    @InScenario() scenario: Scenario,
    @Res({ passthrough: true }) reply: TrailingReply,
  ) {
    const execution = await scenario.run();
    reply.trailer('x-checksum', () => Promise.resolve(`of ${execution}`));
    return { execution };
  }
}

describe.each(platforms)('on the wire, %s:', (platform) => {
  let scenario: Scenario;
  let connection: OpenConnection;

  const app = useServer(() =>
    startApp({
      platform,
      store: slowStore(),
      controllers:
        platform === 'express' ? [WireController] : [WireController, FastifyWireController],
    }),
  );

  beforeEach(() => {
    scenario = app.scenario();
    connection = new OpenConnection(app.port);
  });

  afterEach(() => {
    connection.close();
  });

  /** The head of a request whose body has two bytes. */
  const head = (path: string, key = scenario.key, ...lines: string[]) =>
    [
      `POST ${path} HTTP/1.1`,
      'Host: 127.0.0.1',
      `X-Scenario: ${scenario.id}`,
      'Authorization: Bearer alice',
      `Idempotency-Key: ${key}`,
      'Content-Type: application/json',
      'Content-Length: 2',
      ...lines,
      '\r\n',
    ].join('\r\n');

  const response = (): Promise<RawResponse> =>
    connection.next((bytes) => {
      const parsed = parseResponse(bytes, 'POST');
      return parsed && { part: parsed.response, length: parsed.length };
    });

  describe('pipelined requests', () => {
    it('run once with one key, and get their responses in order', async () => {
      connection.write(`${head('/things')}{}`.repeat(3));
      const [first, ...others] = [await response(), await response(), await response()];
      expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
      for (const other of others) {
        if (other.status === 409) expectProblem(other, 'in-progress');
        else expectReplay(other, first);
      }
      expect(scenario.executions).toBe(1);
    });

    it('each get the replay once there is an outcome', async () => {
      connection.write(`${head('/things')}{}`);
      const first = await response();
      connection.write(`${head('/things')}{}`.repeat(3));
      for (let times = 0; times < 3; times += 1) expectReplay(await response(), first);
    });

    it('each get their own response, in order', async () => {
      const keys = [randomUUID(), randomUUID(), randomUUID()];
      connection.write(keys.map((key) => `${head('/things', key)}{}`).join(''));
      const firsts = [await response(), await response(), await response()];
      expect(scenario.executions).toBe(3);
      connection.write(keys.map((key) => `${head('/things', key)}{}`).join(''));
      for (const first of firsts) expectReplay(await response(), first);
      expect(scenario.executions).toBe(3);
    });
  });

  describe('a client that expects 100-continue', () => {
    const exchange = async (body: string) => {
      connection.write(head('/things', scenario.key, 'Expect: 100-continue'));
      await connection.until('HTTP/1.1 100 Continue\r\n\r\n');
      await connection.next((bytes) => ({ part: undefined, length: bytes.length }));
      connection.write(body);
      return response();
    };

    it('is asked for its body, and gets outcome, replay and rejection like any other', async () => {
      const first = await exchange('{}');
      expect(first).toMatchObject({ status: 201, replayed: false });
      expectReplay(await exchange('{}'), first);
      expectProblem(await exchange('[]'), 'key-reused');
      expect(scenario.executions).toBe(1);
    });
  });

  describe('trailers', () => {
    const paths = platform === 'express' ? ['/native-trailer'] : ['/native-trailer', '/trailer'];
    it.each(paths)(
      'follow the first response, and are omitted from the replay: %s',
      async (path) => {
        connection.write(`${head(path)}{}`);
        const first = await connection.until('of 1\r\n\r\n');
        expect(first).toMatch(/\r\ntrailer: x-checksum\r\n/i);
        expect(first).toMatch(/\r\n0\r\nx-checksum: of 1\r\n\r\n$/i);
        const replay = await scenario.post(path, { json: {} });
        expect(replay).toMatchObject({ status: 201, replayed: true });
        expect([replay.header('trailer'), replay.header('x-checksum')]).toEqual([
          undefined,
          undefined,
        ]);
        const bodies = { '/native-trailer': 'execution 1;the end', '/trailer': '{"execution":1}' };
        expect(replay.text).toBe(bodies[path as keyof typeof bodies]);
        expect(scenario.executions).toBe(1);
      },
    );
  });

  describe('a conditional request', () => {
    it.each([
      ['If-None-Match', '"7"'],
      ['If-None-Match', '*'],
      ['If-Modified-Since', 'Tue, 15 Nov 1994 12:45:26 GMT'],
      ['If-Match', '"8"'],
    ])('gets the replay unchanged: %s: %s', async (name, value) => {
      const first = await scenario.send('PUT', '/things');
      expect(first.header('etag')).toBe('"7"');
      expectReplay(await scenario.send('PUT', '/things', { headers: [[name, value]] }), first);
      expect(scenario.executions).toBe(1);
    });

    it('to which the handler responds with 304 is replayed as 304 without a body', async () => {
      connection.write(`${head('/not-modified')}{}`);
      const first = await response();
      expect(first.status).toBe(304);
      expect(first.header('etag')).toBe('"1"');
      connection.write(`${head('/not-modified')}{}`);
      expectReplay(await response(), first);
      // A body after the 304 would be parsed as part of the next response.
      connection.write(`${head('/things', randomUUID())}{}`);
      expect(await response()).toMatchObject({ status: 201, replayed: false });
    });
  });
});
