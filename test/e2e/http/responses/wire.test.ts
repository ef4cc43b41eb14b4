import { randomUUID } from 'node:crypto';
import { Controller, HttpCode, Post, Put, Res } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { OpenConnection } from '../../../support/http/wire/open-connection.js';
import { parseResponse, type RawResponse } from '../../../support/http/wire/raw-response.js';
import {
  type ExpressResponse,
  type FastifyReply,
  type Reply,
  takeRaw,
} from '../../../support/http/reply.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { slowStore } from '../../../support/stores/slow-store.js';
import { useServer } from '../../../support/servers/use-server.js';

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
