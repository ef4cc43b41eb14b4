import type { Server } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms } from '../../../support/http/combinations.js';
import { Effects } from '../../../support/http/fuzz/effects.js';
import { FuzzConnection, sendAlone } from '../../../support/http/fuzz/fuzz-connection.js';
import {
  FUZZED_TARGETS,
  FuzzedCallers,
  FuzzedController,
} from '../../../support/http/fuzz/fuzzed.controller.js';
import { encode, type FuzzedRequest } from '../../../support/http/fuzz/fuzzed-request.js';
import { fuzzedRequests } from '../../../support/http/fuzz/generate-request.js';
import type { RawResponse } from '../../../support/http/wire/raw-response.js';
import { checkRandomly } from '../../../support/jest/random-runs.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';

const runs = 20;
const REQUESTS_OF_A_RUN = 250;
const REQUESTS_AT_ONCE = 8;
/** Results that must occur often, by name or by the response's status. */
const FREQUENT = ['executed', 'replayed', '400', '401', '422'];

describe.each(platforms)('fuzzed requests on %s', (platform) => {
  const counts = new Map<string, number>();
  const callers = new FuzzedCallers();
  let app: TestApp;

  beforeAll(async () => {
    app = await startApp({
      platform,
      store: memoryStore({ maxRecords: 1_000_000 }),
      controllers: [FuzzedController],
      guard: callers,
      rawBody: true,
    });
    // Otherwise an idle connection may be closed while the next request is on its way.
    (app.nest.getHttpServer() as Server).keepAliveTimeout = 0;
  });

  afterAll(() => app.close());

  async function send(
    connection: FuzzConnection,
    request: FuzzedRequest,
    run: number,
  ): Promise<readonly RawResponse[]> {
    const { content } = request;
    const bytes = encode(request, run);
    if (content.isOdd) {
      const leaves = content.cutAt !== undefined || content.framing === 'too-short';
      return sendAlone(app.port, bytes, content.method, leaves);
    }
    const response = await connection.exchange(bytes, content.method);
    return response === undefined ? [] : [response];
  }

  /** @returns the violations, as text. */
  async function runSteps(requests: readonly FuzzedRequest[]): Promise<string | undefined> {
    const effects = new Effects(counts);
    const run = callers.effects.push(effects) - 1;
    const left = requests.values();
    const sendSome = async () => {
      const connection = new FuzzConnection(app.port);
      for (const request of left) {
        effects.sent(request);
        effects.responded({ request, responses: await send(connection, request, run) });
      }
      connection.close();
    };
    await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, sendSome));
    effects.compareAll();
    const { violations } = effects;
    if (violations.length === 0) return undefined;
    const sent = requests.slice(0, 10).map((request) => encode(request, run).toString('latin1'));
    return [...violations.slice(0, 3), `Of ${requests.length} requests:`, ...sent].join('\n');
  }

  it('cause no error, and nothing runs unprotected or twice [P25]', async () => {
    const checked = await checkRandomly({
      values: fuzzedRequests(REQUESTS_OF_A_RUN, FUZZED_TARGETS),
      runs,
      atOnce: 1,
      check: async ([requests]) => [await runSteps(requests!)],
    });
    const often = Math.floor((checked * REQUESTS_OF_A_RUN) / 400);
    const rare = FREQUENT.filter((what) => (counts.get(what) ?? 0) < often);
    expect(rare).toEqual([]);
  }, 600_000);
});
