import { Controller, Header, HttpCode, Post, Redirect, Res, StreamableFile } from '@nestjs/common';
import type { INestApplication } from '@nestjs/common';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { combinations, useStores } from '../../support/http/combinations.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import type { Reply } from '../../support/http/reply.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';

const allBytes = (length: number) =>
  Buffer.from(Array.from({ length }, (_, index) => (index * 7) % 256));

const PER_EXCHANGE = {
  'X-Request-Id': 'of the first',
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  'Server-Timing': 'db;dur=53',
  'RateLimit-Limit': '10',
  'RateLimit-Remaining': '9',
  'Access-Control-Allow-Origin': 'https://first.example.com',
  Age: '7',
  Via: '1.1 first',
  Server: 'first',
  'WWW-Authenticate': 'Bearer',
};

@Controller()
class ReplayController {
  @Post('things')
  @Idempotent()
  async create(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run(), text: 'ü€😀' };
  }

  @Post('optional')
  @Idempotent({ required: false })
  async optional(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('with-headers')
  @Idempotent()
  async withHeaders(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('Content-Type', 'application/vnd.api+json');
    reply.header('Content-Language', 'de');
    reply.header('Location', '/things/7?a=b%20c');
    reply.header('ETag', '"version 7"');
    reply.header('X-Own', 'kept as it is');
    reply.header('Cache-Control', 'no-store');
    reply.header('Last-Modified', 'Tue, 15 Nov 1994 12:45:26 GMT');
    return { execution: await scenario.run() };
  }

  @Post('hop-by-hop')
  @Idempotent()
  async hopByHop(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('Keep-Alive', 'timeout=99');
    reply.header('Proxy-Connection', 'keep-alive');
    reply.header('TE', 'trailers');
    reply.header('Upgrade', 'h2c');
    return { execution: await scenario.run() };
  }

  @Post('trailer')
  @Idempotent()
  async trailer(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('Transfer-Encoding', 'chunked');
    reply.header('Trailer', 'X-Checksum');
    return new StreamableFile(Readable.from([Buffer.from(`execution ${await scenario.run()}`)]));
  }

  @Post('with-exchange-headers')
  @Idempotent()
  async withExchangeHeaders(
    @InScenario() scenario: Scenario,
    @Res({ passthrough: true }) reply: Reply,
  ) {
    for (const [name, value] of Object.entries(PER_EXCHANGE)) reply.header(name, value);
    return { execution: await scenario.run() };
  }

  @Post('no-content')
  @HttpCode(204)
  @Header('X-Own', 'kept')
  @Idempotent()
  async noContent(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('ETag', `"${await scenario.run()}"`);
  }

  @Post('binary/small')
  @Header('Content-Disposition', 'attachment; filename="small.bin"')
  @Header('Content-Type', 'application/octet-stream')
  @Idempotent()
  async smallBinary(@InScenario() scenario: Scenario) {
    await scenario.run();
    return new StreamableFile(allBytes(512));
  }

  @Post('binary/large')
  @Idempotent()
  async largeBinary(@InScenario() scenario: Scenario) {
    await scenario.run();
    return new StreamableFile(allBytes(300_000), {
      type: 'application/pdf',
      disposition: 'attachment; filename="large.pdf"',
      length: 300_000,
    });
  }

  @Post('chunked')
  @Idempotent()
  async chunked(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    const chunks = Array.from({ length: 20 }, (_, index) => Buffer.from(`${execution}:${index};`));
    return new StreamableFile(Readable.from(chunks), { type: 'text/csv' });
  }

  @Post('limited/:size')
  @Idempotent({ maxStoredBytes: 1_024 })
  async limited(@InScenario() scenario: Scenario) {
    return `${await scenario.run()}${'x'.repeat(2_000)}`;
  }

  @Post('limited-stream')
  @Idempotent({ maxStoredBytes: 1_024 })
  async limitedStream(@InScenario() scenario: Scenario) {
    await scenario.run();
    return new StreamableFile(Readable.from([allBytes(1_000), allBytes(1_000), allBytes(1_000)]));
  }

  @Post('huge-stream')
  @Idempotent()
  async hugeStream(@InScenario() scenario: Scenario) {
    await scenario.run();
    return new StreamableFile(Readable.from(Array.from({ length: 80 }, () => allBytes(65_536))));
  }

  @Post('see-other')
  @Redirect('/things/7', 303)
  @Idempotent()
  async seeOther(@InScenario() scenario: Scenario) {
    await scenario.run();
  }

  @Post('fails')
  @Idempotent({ maxStoredBytes: 1_024 })
  async largeFailure(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    const execution = await scenario.run();
    if (execution === 1) reply.status(503);
    return `${execution}${'x'.repeat(2_000)}`;
  }

  @Post('chosen-headers')
  @Idempotent({ replayHeaders: ['ETag', 'content-type'] })
  async chosenHeaders(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('ETag', '"7"').header('X-Own', 'sent once');
    return { execution: await scenario.run() };
  }

  @Post('unstored')
  @Idempotent({ storeBody: false })
  async unstored(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run(), secret: 'secret-in-the-answer' };
  }
}

@Controller()
class RenamedMarkerController {
  @Post('things')
  @Idempotent()
  async create(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('X-Own', 'kept');
    return { execution: await scenario.run() };
  }
}

/** What a request-id middleware, a rate limiter and CORS do: other values at every exchange. */
function answerPerExchange(nest: INestApplication): void {
  let exchange = 0;
  nest.use(
    (_: unknown, response: { setHeader(name: string, value: string): void }, next: () => void) => {
      exchange += 1;
      response.setHeader('X-Request-Id', `exchange-${exchange}`);
      response.setHeader('RateLimit-Remaining', String(1_000 - exchange));
      response.setHeader('X-Exchange', String(exchange));
      response.setHeader('X-Of-The-App', 'the same each time');
      next();
    },
  );
  nest.enableCors({ origin: true, exposedHeaders: ['Idempotent-Replayed', 'Retry-After'] });
}

const stores = useStores();

describe.each(combinations)('the replay on $platform with $store', ({ platform, store }) => {
  let app: TestApp;
  let busyApp: TestApp;
  let renamedApp: TestApp;

  beforeAll(async () => {
    app = await startApp({ platform, store: stores.fresh(store), controllers: [ReplayController] });
    busyApp = await startApp({
      platform,
      store: stores.fresh(store),
      controllers: [ReplayController],
      configure: answerPerExchange,
    });
    renamedApp = await startApp({
      platform,
      store: stores.fresh(store),
      controllers: [RenamedMarkerController],
      options: { replayHeader: 'X-Replayed' },
    });
  });

  afterAll(async () => {
    for (const each of [app, busyApp, renamedApp]) await each.close();
  });

  async function sendTwice(path: string) {
    const scenario = app.scenario();
    const first = await scenario.post(path);
    const replay = await scenario.post(path);
    expect(scenario.executions).toBe(1);
    expectReplay(replay, first);
    return { first, replay };
  }

  it('C62 the handler’s headers are replayed as they were first sent', async () => {
    const { first, replay } = await sendTwice('/with-headers');
    const names = [
      ...[
        'Content-Type',
        'Content-Language',
        'Location',
        'ETag',
        'X-Own',
        'Cache-Control',
        'Last-Modified',
      ],
    ];
    expect(names.map((name) => replay.header(name))).toEqual(
      names.map((name) => first.header(name)),
    );
    expect(replay.header('content-type')).toContain('application/vnd.api+json');
    expect(replay.header('location')).toBe('/things/7?a=b%20c');
    expect(replay.header('etag')).toBe('"version 7"');
    expect(replay.header('x-own')).toBe('kept as it is');
  });

  it('C62 replayHeaders names the only ones that are replayed', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/chosen-headers');
    const replay = await scenario.post('/chosen-headers');
    expect(replay).toMatchObject({ status: 201, replayed: true, text: first.text });
    expect([first.header('x-own'), replay.header('x-own')]).toEqual(['sent once', undefined]);
    expect(replay.header('etag')).toBe('"7"');
    expect(replay.header('content-type')).toBe(first.header('content-type'));
  });

  it('C65 hop-by-hop headers are not replayed', async () => {
    const { first, replay } = await sendTwice('/hop-by-hop');
    expect(first.header('te')).toBe('trailers');
    for (const name of ['Proxy-Connection', 'TE', 'Upgrade', 'Trailer', 'Transfer-Encoding']) {
      expect([name, ...replay.all(name)]).toEqual([name]);
    }
    expect(replay.header('keep-alive')).not.toBe('timeout=99');
  });

  it('C65 a Trailer and its chunks are not replayed', async () => {
    const { first, replay } = await sendTwice('/trailer');
    expect(first.header('trailer')).toBe('X-Checksum');
    expect(replay.header('trailer')).toBeUndefined();
  });

  it('C67 what belongs to the exchange is not replayed, though the handler set it', async () => {
    const { first, replay } = await sendTwice('/with-exchange-headers');
    for (const [name, value] of Object.entries(PER_EXCHANGE)) {
      expect({ name, value: first.header(name) }).toEqual({ name, value });
      expect({ name, value: replay.header(name) }).toEqual({ name, value: undefined });
    }
  });

  it('C67 what middleware sets belongs to each exchange', async () => {
    const scenario = busyApp.scenario();
    const first = await scenario.post('/things', {
      headers: [['Origin', 'https://one.example.com']],
    });
    const replay = await scenario.post('/things', {
      headers: [['Origin', 'https://two.example.com']],
    });
    expectReplay(replay, first);
    expect(first.header('access-control-allow-origin')).toBe('https://one.example.com');
    expect(replay.header('access-control-allow-origin')).toBe('https://two.example.com');
    expect(replay.header('access-control-expose-headers')).toMatch(
      /^Idempotent-Replayed, ?Retry-After$/,
    );
    expect(replay.header('x-request-id')).toMatch(/^exchange-/);
    expect(replay.header('x-request-id')).not.toBe(first.header('x-request-id'));
    expect(replay.header('x-exchange')).toBe(String(Number(first.header('x-exchange')) + 1));
    expect(replay.header('ratelimit-remaining')).not.toBe(first.header('ratelimit-remaining'));
    expect(replay.header('x-of-the-app')).toBe('the same each time');
  });

  it('C68 204 has no body and no Content-Type, and keeps its own headers', async () => {
    const { first, replay } = await sendTwice('/no-content');
    expect(first.status).toBe(204);
    expect(replay.body).toHaveLength(0);
    expect(replay.header('content-type')).toBeUndefined();
    expect(replay.header('content-length')).toBe(first.header('content-length'));
    expect([replay.header('x-own'), replay.header('etag')]).toEqual(['kept', '"1"']);
  });

  it.each([
    ['/binary/small', 512, 'attachment; filename="small.bin"'],
    ['/binary/large', 300_000, 'attachment; filename="large.pdf"'],
  ])(
    'C69 %s of %d bytes is byte-identical with its Content-Disposition',
    async (path, length, disposition) => {
      const { replay } = await sendTwice(path);
      expect(replay.body.equals(allBytes(length))).toBe(true);
      expect(replay.header('content-disposition')).toBe(disposition);
    },
  );

  it('C70 a chunked response replays whole', async () => {
    const { first, replay } = await sendTwice('/chunked');
    expect(first.text).toMatch(/^1:0;1:1;.*1:19;$/);
    expect(replay.header('content-type')).toBe('text/csv');
  });

  it.each(['/limited/1', '/limited-stream', '/huge-stream'])(
    'C70a a response over the storage limit goes out whole and is not repeated: %s',
    async (path) => {
      const scenario = app.scenario();
      const first = await scenario.post(path);
      expect(first).toMatchObject({ status: 201, replayed: false });
      const expected = {
        '/limited/1': 2_001,
        '/limited-stream': 3_000,
        '/huge-stream': 80 * 65_536,
      }[path];
      expect(first.body).toHaveLength(expected!);
      expectProblem(await scenario.post(path), 'response-not-kept');
      expectProblem(await scenario.post(path), 'response-not-kept');
      expect(scenario.executions).toBe(1);
    },
  );

  it('C70a a failure over the storage limit is released all the same', async () => {
    const scenario = app.scenario();
    expect(await scenario.post('/fails')).toMatchObject({ status: 503, replayed: false });
    expect(await scenario.post('/fails')).toMatchObject({ status: 201, replayed: false });
    expectProblem(await scenario.post('/fails'), 'response-not-kept');
    expect(scenario.executions).toBe(2);
  });

  it.each(['/things', '/no-content', '/binary/large', '/chunked', '/see-other'])(
    'C72 the length fits: three answers of %s stand in one connection',
    async (path) => {
      const scenario = app.scenario();
      const [first, ...replays] = await scenario.postOnOneConnection(path, [{}, {}, {}]);
      for (const replay of replays) expectReplay(replay, first!);
      for (const replay of replays.filter(({ status }) => status !== 204)) {
        expect(replay.header('content-length')).toBe(String(first!.body.length));
      }
    },
  );

  it('C73 only replays carry the marker', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/things');
    await scenario.started.reached(1);
    const inProgress = await scenario.post('/things');
    scenario.gate.open();
    const answers = {
      inProgress,
      first: await pending.response,
      replay: await scenario.post('/things'),
      reused: await scenario.post('/things', { json: { other: true } }),
      invalid: await scenario.post('/things', { key: '"abc' }),
      missing: await scenario.post('/things', { key: null }),
      withoutKey: await scenario.post('/optional', { key: null }),
    };
    const markers = Object.entries(answers).map(([name, { status, lines }]) => [
      name,
      status,
      ...lines
        .filter(([header]) => header.toLowerCase() === 'idempotent-replayed')
        .map(([, value]) => value),
    ]);
    expect(markers).toEqual([
      ['inProgress', 409],
      ['first', 201],
      ['replay', 201, 'true'],
      ['reused', 422],
      ['invalid', 400],
      ['missing', 400],
      ['withoutKey', 201],
    ]);
  });

  it('C73 the marker’s name can be chosen', async () => {
    const scenario = renamedApp.scenario();
    const first = await scenario.post('/things');
    const replay = await scenario.post('/things');
    expect([first.header('x-replayed'), replay.header('x-replayed')]).toEqual([undefined, 'true']);
    expect(replay.header('idempotent-replayed')).toBeUndefined();
    expect(replay.body.equals(first.body)).toBe(true);
  });

  it('C87d with storeBody: false only the fact is kept', async () => {
    const scenario = app.scenario();
    expect((await scenario.post('/unstored')).json).toMatchObject({ execution: 1 });
    const second = await scenario.post('/unstored');
    expectProblem(second, 'response-not-kept');
    expect(second.text).not.toContain('secret');
    expectProblem(await scenario.post('/unstored', { json: { other: true } }), 'key-reused');
    expect(scenario.executions).toBe(1);
  });
});
