import { Readable } from 'node:stream';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import fastifyCompress from '@fastify/compress';
import { Controller, Post, StreamableFile, type INestApplication } from '@nestjs/common';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { describe, expect, it } from '@jest/globals';
import compression from 'compression';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms, type Platform } from '../../../support/http/combinations.js';
import { expectProblem } from '../../../support/http/expectations.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import type { RawResponse } from '../../../support/http/wire/raw-response.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { useServer } from '../../../support/servers/use-server.js';

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
