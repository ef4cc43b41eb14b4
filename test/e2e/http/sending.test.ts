import { PassThrough, Readable } from 'node:stream';
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { Controller, Param, Post, Res, type INestApplication } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { platforms } from '../../support/http/combinations.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import { onceSettled } from '../../support/http/once-settled.js';
import type { RawResponse } from '../../support/http/raw-response.js';
import type { ExpressResponse, FastifyReply } from '../../support/http/reply.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp } from '../../support/http/start-app.js';
import { peekRaw, takeRaw } from '../../support/http/take-raw.js';
import { slowStore } from '../../support/slow-store.js';
import { useServer } from '../../support/use-server.js';

type AnyReply = ExpressResponse | FastifyReply;

/** Larger than what a `PassThrough` takes without asking to wait. */
const LARGE = 'y'.repeat(20_000);

/** Calls `listener` before the head is written, as the package on-headers does for sessions and the like. */
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

/** Sends everything through a stream of its own, whose `drain` is the one to wait for, as compression does. */
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
            throw new Error('a listener to the head fails');
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

/** Ends the response, and tells the scenario when that throws. */
function endNatively(scenario: Scenario, raw: ServerResponse, body: unknown): void {
  try {
    raw.end(body);
  } catch (error) {
    scenario.notes.push(error);
    // A framework answers its exceptions with a reason of its own.
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
  @Idempotent({ maxStoredBytes: 1_000 })
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
  @Idempotent({ maxStoredBytes: 1_000 })
  async largeFailure(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    await scenario.run();
    const raw = takeRaw(reply);
    raw.statusCode = 500;
    for (let i = 0; i < 5; i += 1) raw.write(LARGE);
    raw.end();
  }

  @Post('large-failure-by-callback')
  @Idempotent({ maxStoredBytes: 1_000 })
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

/** What the client sees of an answer that may not have come at all. */
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
      options: { shutdownTimeoutMs: 1_000 },
      configure: withMiddleware,
    }),
  );

  const expectError = async (response: Promise<RawResponse>) =>
    expect([500, 'closed']).toContain(await outcomeOf(response));

  const expectAlive = async (scenario: Scenario) =>
    expect(await scenario.post('/value', { key: 'another' })).toMatchObject({ status: 201 });

  it.each(['/reason/beyond-latin-1', '/reason/with-a-line-break', '/status/0', '/status/99'])(
    'a success that cannot be sent is an error for its client, and is not repeated: %s',
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
    'a status that no policy knows is a failure, and frees the key: %s',
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
  ])('a native handler learns that it cannot be sent, and fails: %s', async (path) => {
    const scenario = app.scenario();
    for (let post = 1; post <= 2; post += 1) await expectError(scenario.post(path));
    expect(scenario.executions).toBe(2);
    expect(scenario.notes).toHaveLength(2);
    await expectAlive(scenario);
  });

  it('a listener to the head that throws does not have a success repeated', async () => {
    const scenario = app.scenario();
    await expectError(scenario.post('/value', middleware('throws')));
    const second = await scenario.post('/value');
    expect(second).toMatchObject({ status: 201, replayed: true, json: { execution: 1 } });
    expect(scenario.executions).toBe(1);
  });

  it('a listener to the head that throws at a replay leaves the record as it was', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/value');
    await expectError(scenario.post('/value', middleware('throws')));
    expectReplay(await scenario.post('/value'), first);
    expect(scenario.executions).toBe(1);
  });

  it('values of headers that are no text are replayed as they were sent', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/odd-headers');
    expect(first).toMatchObject({ status: 201, replayed: false });
    expect(first.header('x-total')).toBe('10');
    expect(first.header('x-day')).toBe(String(new Date(0)));
    expectReplay(await scenario.post('/odd-headers'), first);
    expect(scenario.executions).toBe(1);
  });

  it('a header in Latin-1 is replayed in the bytes that it was sent in', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/latin-1-header');
    expectReplay(await scenario.post('/latin-1-header'), first);
  });

  it('a header that middleware began and the handler continued is replayed as a whole', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/links', middleware('links'));
    expect(first.all('link')).toEqual(['</middleware>; rel=a', '</handler>; rel=b']);
    expectReplay(await scenario.post('/links', middleware('links')), first);
    expectReplay(await scenario.post('/links'), first);
    expect(scenario.executions).toBe(1);
  });

  it('what the handler lays over the response runs when the answer is sent', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/listens-to-the-head');
    expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
    expect(first.header('x-late')).toBe('from execution 1');
    const second = await scenario.post('/listens-to-the-head');
    expect(second).toMatchObject({ status: 201, replayed: true, json: { execution: 1 } });
    expect(scenario.executions).toBe(1);
  });

  it('an end() taken before the answer, and called after it, does nothing', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/ends-again-later');
    expect(first.text).toBe('execution 1');
    await scenario.passed.reached(2);
    expect(scenario.notes).toEqual(['nothing happened']);
    expectReplay(await scenario.post('/ends-again-later'), first);
  });

  it.each(['no middleware', 'streams'])(
    'a large answer that waits for drain arrives whole: %s',
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
    'a failure too large to be held frees the key: %s',
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

describe('on fastify alone', () => {
  const app = useServer(() =>
    startApp({
      platform: 'fastify',
      store: slowStore(),
      controllers: [FastifySendingController],
      options: { shutdownTimeoutMs: 1_000 },
    }),
  );

  it('a stream of objects cannot be sent: the attempt is settled, and nothing runs again', async () => {
    const scenario = app.scenario();
    expect([500, 'closed']).toContain(await outcomeOf(scenario.post('/objects')));
    expectProblem(await onceSettled(() => scenario.post('/objects')), 'response-not-kept');
    expect(scenario.executions).toBe(1);
  });
});
