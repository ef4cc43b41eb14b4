import type { ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { ConflictException, Controller, HttpCode, Post, Res, StreamableFile } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms } from '../../../support/http/combinations.js';
import { parseResponse } from '../../../support/http/wire/raw-response.js';
import { type FastifyReply, type Reply, takeRaw } from '../../../support/http/reply.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { useServer } from '../../../support/servers/use-server.js';

type Native = ServerResponse | FastifyReply;

@Controller()
class FramingController {
  @Post('chunked')
  @Idempotent()
  async chunked(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('Transfer-Encoding', 'chunked');
    return { execution: await scenario.run() };
  }

  @Post('trailer')
  @Idempotent()
  async trailer(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('Trailer', 'X-Sum').header('Transfer-Encoding', 'chunked');
    return { execution: await scenario.run() };
  }

  @Post('short-length')
  @Idempotent()
  async shortLength(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('Content-Length', '3');
    return { execution: await scenario.run() };
  }

  @Post('file-length')
  @Idempotent()
  async fileLength(@InScenario() scenario: Scenario) {
    await scenario.run();
    return new StreamableFile(Readable.from([Buffer.from('Café')]), { length: 5 });
  }

  @Post('closing')
  @Idempotent()
  async closing(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('Connection', 'close');
    return { execution: await scenario.run() };
  }

  @Post('no-content')
  @HttpCode(204)
  @Idempotent()
  async noContent(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('Content-Length', '0');
    await scenario.run();
  }

  @Post('no-content-chunked')
  @HttpCode(204)
  @Idempotent()
  async noContentChunked(
    @InScenario() scenario: Scenario,
    @Res({ passthrough: true }) reply: Reply,
  ) {
    reply.header('Transfer-Encoding', 'chunked');
    await scenario.run();
  }

  @Post('not-modified')
  @HttpCode(304)
  @Idempotent()
  async notModified(@InScenario() scenario: Scenario) {
    await scenario.run();
  }

  @Post('reset')
  @HttpCode(205)
  @Idempotent()
  async reset(@InScenario() scenario: Scenario) {
    await scenario.run();
  }

  @Post('native-chunked')
  @Idempotent()
  async nativeChunked(@InScenario() scenario: Scenario, @Res() reply: Native) {
    const raw = takeRaw(reply);
    raw.setHeader('Transfer-Encoding', 'chunked');
    raw.write(`execution ${await scenario.run()}`);
    raw.end('; the end');
  }

  @Post('native-head')
  @Idempotent()
  async nativeHead(@InScenario() scenario: Scenario, @Res() reply: Native) {
    await scenario.run();
    takeRaw(reply).writeHead(200, { 'Content-Length': 5, Connection: 'close' }).end('Café');
  }

  @Post('native-nothing')
  @Idempotent()
  async nativeNothing(@InScenario() scenario: Scenario, @Res() reply: Native) {
    await scenario.run();
    takeRaw(reply).writeHead(204).end();
  }

  @Post('overflow')
  @Idempotent({ outcome: { maxBytes: 10 } })
  async overflow(@InScenario() scenario: Scenario) {
    await scenario.run();
    return new StreamableFile(Readable.from([Buffer.alloc(20, 'a'), Buffer.alloc(20, 'b')]));
  }

  @Post('conflict')
  @Idempotent()
  async conflict(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('Transfer-Encoding', 'chunked');
    await scenario.run();
    throw new ConflictException('taken');
  }

  /** Asked after each of the others, on the same connection. */
  @Post('next')
  next() {
    return 'the next response';
  }
}

const paths = Object.getOwnPropertyNames(FramingController.prototype)
  .filter((name) => name !== 'constructor' && name !== 'next')
  .map((name) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`));

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

describe.each(
  platforms.flatMap((platform) =>
    Object.entries(MIDDLEWARE).map(([sets, fields]) => ({ platform, sets, fields })),
  ),
)('on $platform, where middleware sets $sets, the framing of', ({ platform, fields }) => {
  const app = useServer(() =>
    startApp({
      platform,
      store: memoryStore(),
      controllers: [FramingController],
      configure: (nest) => {
        nest.use(({ url }: { url: string }, raw: ServerResponse, next: () => void) => {
          if (url !== '/next') raw.setHeaders(new Map(Object.entries(fields)));
          next();
        });
      },
    }),
  );

  // Their retries get 409, which Nest sends with whatever middleware has set.
  const kept = paths.filter((path) => !['overflow', 'short-length'].includes(path));
  it.each(fields === NOTHING ? paths : kept)(
    '%s is described as it is, first and replayed',
    async (path) => {
      for (const connection of CONNECTIONS) {
        const scenario = app.scenario();
        const bodies: string[] = [];
        for (const isReplay of [false, true]) {
          const requests = connection.map(([version, persistence], index) =>
            [
              `POST /${index === 0 ? path : 'next'} HTTP/${version}`,
              'Host: 127.0.0.1',
              `X-Scenario: ${scenario.id}`,
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
