import { Readable } from 'node:stream';
import { Body, Controller, Header, HttpCode, Post, Res, StreamableFile } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { Http2Client, reset, responseOn } from '../../../support/http/wire/http2-client.js';
import type { FastifyReply } from '../../../support/http/reply.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import { startApp } from '../../../support/http/start-app.js';
import { useServer } from '../../../support/servers/use-server.js';

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

describe('HTTP/2 on fastify', () => {
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
