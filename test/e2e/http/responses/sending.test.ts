import { PassThrough, Readable } from 'node:stream';
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { Controller, Param, Post, Res, type INestApplication } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import type { RawResponse } from '../../../support/http/wire/raw-response.js';
import {
  type ExpressResponse,
  type FastifyReply,
  peekRaw,
  takeRaw,
} from '../../../support/http/reply.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { slowStore } from '../../../support/stores/slow-store.js';
import { useServer } from '../../../support/servers/use-server.js';

type AnyReply = ExpressResponse | FastifyReply;

/** Larger than the buffer of a `PassThrough`, so that writers must wait for drain. */
const LARGE = 'y'.repeat(20_000);

/** Calls `listener` before the head is written, as the package on-headers does for sessions. */
function beforeTheHead(raw: ServerResponse, listener: () => void): void {
  const writeHead = raw.writeHead.bind(raw) as (...args: unknown[]) => ServerResponse;
  let isFirst = true;
  raw.writeHead = (...args: unknown[]) => {
    if (isFirst) {
      isFirst = false;
      listener();
    }
    return writeHead(...args);
  };
}

/** Sends everything through its own stream, whose `drain` writers wait for, as compression does. */
function throughOwnStream(raw: ServerResponse): void {
  const through = new PassThrough();
  const [on, write, end] = [raw.on.bind(raw), raw.write.bind(raw), raw.end.bind(raw)];
  const own = (event: string, listener: (...args: any[]) => void) => {
    if (event === 'drain') through.on(event, listener);
    else on(event, listener);
    return raw;
  };
  Object.assign(raw, {
    on: own,
    write: (chunk: string | Buffer) => through.write(chunk),
    end: (chunk?: string | Buffer) => {
      if (chunk !== undefined) through.write(chunk);
      through.end();
      return raw;
    },
  });
  through.on('data', (chunk: Buffer) => {
    if (!write(chunk)) through.pause();
  });
  on('drain', () => through.resume());
  through.on('end', () => end());
}

const wanted = (request: { headers: OutgoingHttpHeaders }) =>
  String(request.headers['x-middleware']);

function withMiddleware(nest: INestApplication): void {
  nest.use(
    (request: { headers: OutgoingHttpHeaders }, raw: ServerResponse, next: () => void): void => {
      switch (wanted(request)) {
        case 'throws':
          beforeTheHead(raw, () => {
            throw new Error('a listener to the head throws');
          });
          break;
        case 'links':
          raw.setHeader('Link', ['</middleware>; rel=a']);
          break;
        case 'streams':
          throughOwnStream(raw);
      }
      next();
    },
  );
}

const middleware = (name: string) => ({ headers: [['X-Middleware', name]] }) as const;

const REASONS: Record<string, string> = {
  'beyond-latin-1': 'refusé ✗',
  'with-a-line-break': 'two\r\nlines',
};

/** Ends the response, and notes what that throws in the scenario. */
function endNatively(scenario: Scenario, raw: ServerResponse, body: unknown): void {
  try {
    raw.end(body);
  } catch (error) {
    scenario.notes.push(error);
    // The framework responds to exceptions with its own reason.
    raw.statusMessage = '';
    throw error;
  }
}

@Controller()
class SendingController {
  @Post('reason/:which')
  @Idempotent()
  async reason(
    @InScenario() scenario: Scenario,
    @Res({ passthrough: true }) reply: AnyReply,
    @Param('which') which: string,
  ) {
    const execution = await scenario.run();
    peekRaw(reply).statusMessage = REASONS[which]!;
    return { execution };
  }

  @Post('status/:status')
  @Idempotent()
  async status(
    @InScenario() scenario: Scenario,
    @Res({ passthrough: true }) reply: AnyReply,
    @Param('status') status: string,
  ) {
    const execution = await scenario.run();
    peekRaw(reply).statusCode = Number(status);
    return { execution };
  }

  @Post('native-reason/:which')
  @Idempotent()
  async nativeReason(
    @InScenario() scenario: Scenario,
    @Res() reply: AnyReply,
    @Param('which') which: string,
  ) {
    await scenario.run();
    const raw = peekRaw(reply);
    raw.statusMessage = REASONS[which]!;
    endNatively(scenario, raw, 'sent');
  }

  @Post('native-status/:status')
  @Idempotent()
  async nativeStatus(
    @InScenario() scenario: Scenario,
    @Res() reply: AnyReply,
    @Param('status') status: string,
  ) {
    await scenario.run();
    const raw = peekRaw(reply);
    raw.statusCode = Number(status);
    endNatively(scenario, raw, 'sent');
  }

  @Post('native-object')
  @Idempotent()
  async nativeObject(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    await scenario.run();
    endNatively(scenario, peekRaw(reply), {});
  }

  @Post('value')
  @Idempotent()
  async value(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('odd-headers')
  @Idempotent()
  async oddHeaders(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: AnyReply) {
    const execution = await scenario.run();
    const odd = { 'X-Total': 10n, 'X-Day': new Date(0), 'X-Count': 7 };
    for (const [name, value] of Object.entries(odd)) {
      if ('raw' in reply) reply.header(name, value as never);
      else reply.setHeader(name, value as never);
    }
    return { execution };
  }

  @Post('latin-1-header')
  @Idempotent()
  async latin1(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: AnyReply) {
    const execution = await scenario.run();
    reply.header('X-Text', 'caf\u00e9');
    return { execution };
  }

  @Post('links')
  @Idempotent()
  async links(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: AnyReply) {
    const execution = await scenario.run();
    peekRaw(reply).appendHeader('Link', '</handler>; rel=b');
    return { execution };
  }

  @Post('listens-to-the-head')
  @Idempotent()
  async listens(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: AnyReply) {
    const execution = await scenario.run();
    const raw = peekRaw(reply);
    beforeTheHead(raw, () => raw.setHeader('X-Late', `from execution ${execution}`));
    return { execution };
  }

  @Post('ends-again-later')
  @Idempotent()
  async endsAgain(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    const execution = await scenario.run();
    const raw = takeRaw(reply);
    const end = raw.end.bind(raw);
    raw.once('finish', () => {
      setImmediate(() => {
        try {
          end('and again');
          scenario.notes.push('nothing happened');
        } catch (error) {
          scenario.notes.push(error);
        }
        scenario.passed.add();
      });
    });
    raw.end(`execution ${execution}`);
  }

  @Post('waits-for-drain')
  @Idempotent({ outcome: { maxBytes: 1_000 } })
  async waitsForDrain(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    await scenario.run();
    const raw = takeRaw(reply);
    raw.setHeader('Content-Type', 'text/plain');
    for (let i = 0; i < 5; i += 1) {
      if (!raw.write(LARGE)) await new Promise((resolve) => raw.once('drain', resolve));
    }
    raw.end();
  }

  @Post('large-failure')
  @Idempotent({ outcome: { maxBytes: 1_000 } })
  async largeFailure(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    await scenario.run();
    const raw = takeRaw(reply);
    raw.statusCode = 500;
    for (let i = 0; i < 5; i += 1) raw.write(LARGE);
    raw.end();
  }

  @Post('large-failure-by-callback')
  @Idempotent({ outcome: { maxBytes: 1_000 } })
  largeFailureByCallback(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    const raw = takeRaw(reply);
    void scenario.run().then(() => {
      raw.statusCode = 500;
      for (let i = 0; i < 5; i += 1) raw.write(LARGE);
      raw.end();
    });
  }
}

@Controller()
class FastifySendingController {
  @Post('objects')
  @Idempotent()
  async objects(@InScenario() scenario: Scenario, @Res() reply: FastifyReply) {
    const execution = await scenario.run();
    reply.send(Readable.from([{ execution }]));
  }
}

/** What the client sees: the status, or a closed connection. */
async function outcomeOf(response: Promise<RawResponse>): Promise<number | 'closed'> {
  return response.then(
    ({ status }) => status,
    () => 'closed' as const,
  );
}

describe.each(platforms)('sending on %s', (platform) => {
  const app = useServer(() =>
    startApp({
      platform,
      store: slowStore(),
      controllers: [SendingController],
      options: { limits: { shutdownTimeoutMs: 1_000 } },
      configure: withMiddleware,
    }),
  );

  const expectError = async (response: Promise<RawResponse>) =>
    expect([500, 'closed']).toContain(await outcomeOf(response));

  const expectAlive = async (scenario: Scenario) =>
    expect(await scenario.post('/value', { key: 'another' })).toMatchObject({ status: 201 });

  it.each(['/reason/beyond-latin-1', '/reason/with-a-line-break', '/status/0', '/status/99'])(
    'reports a success that cannot be sent as an error, and does not run it again: %s',
    async (path) => {
      const scenario = app.scenario();
      await expectError(scenario.post(path));
      const second = await onceSettled(() => scenario.post(path));
      expect(second.text).not.toContain('idempotency_in_progress');
      expect(scenario.executions).toBe(1);
      await expectAlive(scenario);
    },
  );

  it.each(['/status/NaN', '/status/1000'])(
    'treats an invalid status as a failure, and frees the key: %s',
    async (path) => {
      const scenario = app.scenario();
      for (let post = 1; post <= 2; post += 1) await expectError(scenario.post(path));
      expect(scenario.executions).toBe(2);
      await expectAlive(scenario);
    },
  );

  it.each([
    '/native-reason/beyond-latin-1',
    '/native-reason/with-a-line-break',
    '/native-status/0',
    '/native-status/99',
    '/native-status/NaN',
    '/native-status/1000',
    '/native-object',
  ])(
    'throws in a native handler whose response cannot be sent, and frees the key: %s',
    async (path) => {
      const scenario = app.scenario();
      for (let post = 1; post <= 2; post += 1) await expectError(scenario.post(path));
      expect(scenario.executions).toBe(2);
      expect(scenario.notes).toHaveLength(2);
      await expectAlive(scenario);
    },
  );

  it('does not run a success again after a listener to the head throws', async () => {
    const scenario = app.scenario();
    await expectError(scenario.post('/value', middleware('throws')));
    const second = await scenario.post('/value');
    expect(second).toMatchObject({ status: 201, replayed: true, json: { execution: 1 } });
    expect(scenario.executions).toBe(1);
  });

  it('keeps the record when a listener to the head throws during a replay', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/value');
    await expectError(scenario.post('/value', middleware('throws')));
    expectReplay(await scenario.post('/value'), first);
    expect(scenario.executions).toBe(1);
  });

  it('replays header values that are not strings as they were sent', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/odd-headers');
    expect(first).toMatchObject({ status: 201, replayed: false });
    expect(first.header('x-total')).toBe('10');
    expect(first.header('x-day')).toBe(String(new Date(0)));
    expectReplay(await scenario.post('/odd-headers'), first);
    expect(scenario.executions).toBe(1);
  });

  it('replays a Latin-1 header byte for byte', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/latin-1-header');
    expectReplay(await scenario.post('/latin-1-header'), first);
  });

  it('replays a header completely to which middleware and handler contributed', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/links', middleware('links'));
    expect(first.all('link')).toEqual(['</middleware>; rel=a', '</handler>; rel=b']);
    expectReplay(await scenario.post('/links', middleware('links')), first);
    expectReplay(await scenario.post('/links'), first);
    expect(scenario.executions).toBe(1);
  });

  it('calls the handler’s wrapper around the response when the response is sent', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/listens-to-the-head');
    expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
    expect(first.header('x-late')).toBe('from execution 1');
    const second = await scenario.post('/listens-to-the-head');
    expect(second).toMatchObject({ status: 201, replayed: true, json: { execution: 1 } });
    expect(scenario.executions).toBe(1);
  });

  it('ignores a second call of end() after the response', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/ends-again-later');
    expect(first.text).toBe('execution 1');
    await scenario.passed.reached(2);
    expect(scenario.notes).toEqual(['nothing happened']);
    expectReplay(await scenario.post('/ends-again-later'), first);
  });

  it.each(['no middleware', 'streams'])(
    'sends a large response that waits for drain completely: %s [P43]',
    async (name) => {
      const scenario = app.scenario();
      const first = await scenario.post('/waits-for-drain', middleware(name));
      expect(first).toMatchObject({ status: 201, replayed: false });
      expect(first.body).toHaveLength(5 * LARGE.length);
      expectProblem(await scenario.post('/waits-for-drain'), 'response-not-kept');
      expect(scenario.executions).toBe(1);
    },
  );

  it.each(['/large-failure', '/large-failure-by-callback'])(
    'frees the key after a failure that is too large to store: %s',
    async (path) => {
      const scenario = app.scenario();
      const first = await scenario.post(path);
      expect(first).toMatchObject({ status: 500, replayed: false });
      expect(first.body).toHaveLength(5 * LARGE.length);
      const second = await onceSettled(() => scenario.post(path));
      expect(second).toMatchObject({ status: 500, replayed: false });
      expect(scenario.executions).toBe(2);
    },
  );
});

describe('sending on fastify only', () => {
  const app = useServer(() =>
    startApp({
      platform: 'fastify',
      store: slowStore(),
      controllers: [FastifySendingController],
      options: { limits: { shutdownTimeoutMs: 1_000 } },
    }),
  );

  it('settles the attempt when a stream of objects cannot be sent, and nothing runs again', async () => {
    const scenario = app.scenario();
    expect([500, 'closed']).toContain(await outcomeOf(scenario.post('/objects')));
    expectProblem(await onceSettled(() => scenario.post('/objects')), 'response-not-kept');
    expect(scenario.executions).toBe(1);
  });
});
