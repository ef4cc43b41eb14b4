import { Controller, Logger, Post } from '@nestjs/common';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { afterAll, beforeEach, describe, expect, it } from '@jest/globals';
import { json } from 'express';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem } from '../../../support/http/expectations.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp, type StartAppOptions } from '../../../support/http/start-app.js';
import { slowStore } from '../../../support/stores/slow-store.js';
import { LoggedLines } from '../../../support/nest/logged-lines.js';
import { useServer } from '../../../support/servers/use-server.js';

/** A new controller for each test, as each message is logged once per operation. */
function bytesController() {
  @Controller()
  class BytesController {
    @Post('canonical')
    @Idempotent()
    canonical(@InScenario() scenario: Scenario) {
      return scenario.response();
    }

    @Post('bytes')
    @Idempotent({ fingerprint: 'bytes', operation: `bytes ${(operations += 1)}` })
    bytes(@InScenario() scenario: Scenario) {
      return scenario.response();
    }
  }
  return BytesController;
}

let operations = 0;

const logged = new LoggedLines();

beforeEach(() => {
  logged.lines.length = 0;
});

afterAll(() => {
  Logger.overrideLogger(false);
});

async function withApp(
  start: Partial<StartAppOptions> & Pick<StartAppOptions, 'platform'>,
  test: (scenario: Scenario) => Promise<void>,
): Promise<void> {
  const app = await startApp({ store: memoryStore(), controllers: [bytesController()], ...start });
  Logger.overrideLogger(logged);
  try {
    await test(app.scenario());
  } finally {
    await app.close();
  }
}

it.each(['/canonical', '/bytes'])(
  'C46 a body whose media type has no parser is rejected on express%s',
  (path) =>
    withApp({ platform: 'express', rawBody: true }, async (scenario) => {
      const xml = { type: 'application/xml', body: '<a/>' };
      expectProblem(await scenario.post(path, xml), 'content-invalid');
      expect(logged.own).toEqual([expect.stringMatching(/Register a parser for its media type/)]);
      expect(scenario.executions).toBe(0);
    }),
);

it("C46 a text whose bytes Fastify has not kept is rejected with fingerprint: 'bytes'", () =>
  withApp({ platform: 'fastify', rawBody: true }, async (scenario) => {
    const text = { type: 'text/plain', body: 'one' };
    expectProblem(await scenario.post('/bytes', text), 'content-invalid');
    expect(logged.own).toEqual([expect.stringMatching(/has converted the request's bytes/)]);
    expect(await scenario.post('/canonical', text)).toMatchObject({ status: 201 });
  }));

describe.each(platforms)('C32 a JSON parser on %s', (platform) => {
  function parseWith(
    keep: (request: object, bytes: Buffer) => void,
  ): Pick<StartAppOptions, 'configure'> {
    return {
      configure: (nest) =>
        platform === 'express'
          ? nest.use(json({ verify: (request, _, bytes) => keep(request, bytes) }))
          : (nest as NestFastifyApplication).useBodyParser(
              'application/json',
              {},
              (request, body, done) => {
                keep(request, body);
                done(null, JSON.parse(String(body)));
              },
            ),
    };
  }

  it("that keeps raw bytes is sufficient for fingerprint: 'bytes'", () => {
    const keeping = parseWith((request, rawBody) => Object.assign(request, { rawBody }));
    return withApp({ platform, ...keeping }, async (scenario) => {
      expect(await scenario.post('/bytes', { body: '{"a":1}' })).toMatchObject({ status: 201 });
      expect(await scenario.post('/bytes', { body: '{"a":1}' })).toMatchObject({ replayed: true });
      expectProblem(await scenario.post('/bytes', { body: '{"a": 1}' }), 'key-reused');
    });
  });

  const limited: StartAppOptions['configure'] = (nest) =>
    platform === 'express'
      ? (nest as NestExpressApplication).useBodyParser('json', { limit: '10mb' })
      : (nest as NestFastifyApplication).useBodyParser('application/json', { bodyLimit: 1e7 });

  it.each([
    ['of Nest', {}],
    ['of Nest with its own limit', { configure: limited }],
    ['of the application', parseWith(() => undefined)],
  ])(
    '%s that keeps no raw bytes fails the first request, and the log names the remedy',
    (_, parser) =>
      withApp({ platform, ...parser }, async (scenario) => {
        expectProblem(await scenario.post('/bytes', { body: '{"a":1}' }), 'misconfigured');
        expect(scenario.executions).toBe(0);
        expect(logged.own).toEqual([
          expect.stringMatching(
            /^error: bytes \d+: The option "fingerprint" is 'bytes'.* \{ rawBody: true \}/,
          ),
        ]);
      }),
  );
});

@Controller()
class ComparingController {
  @Post('by-value')
  @Idempotent()
  byValue(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('without-a-member')
  @Idempotent({ fingerprint: { exclude: ['note'] } })
  withoutAMember(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('by-a-member')
  @Idempotent({ fingerprint: { include: ['items.sku'] } })
  byAMember(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

/** Valid JSON, within the parsers' limits, and too deep for a recursive function. */
const DEPTH = 40_000;
const deep = '['.repeat(DEPTH) + ']'.repeat(DEPTH);

describe.each(platforms)('C35 content that is nested too deeply on %s', (platform) => {
  const app = useServer(() =>
    startApp({ platform, store: slowStore(), controllers: [ComparingController] }),
  );

  it.each(['/by-value', '/without-a-member', '/by-a-member'])(
    'is rejected where it is compared %s',
    async (path) => {
      const scenario = app.scenario();
      expectProblem(await scenario.post(path, { body: deep }), 'content-invalid');
      expectProblem(await scenario.post(path, { body: `{"items":${deep}}` }), 'content-invalid');
      expect(scenario.executions).toBe(0);
      expect(await scenario.post(path, { json: { items: [] } })).toMatchObject({ status: 201 });
    },
  );
});
