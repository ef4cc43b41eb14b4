import { randomInt } from 'node:crypto';
import type { Server } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms } from '../../support/http/combinations.js';
import { Effects } from '../../support/http/fuzz/effects.js';
import { FuzzConnection, sendAlone } from '../../support/http/fuzz/fuzz-connection.js';
import {
  FUZZED_TARGETS,
  FuzzedCallers,
  FuzzedController,
} from '../../support/http/fuzz/fuzzed.controller.js';
import { encode, type FuzzedRequest } from '../../support/http/fuzz/fuzzed-request.js';
import { RequestGenerator } from '../../support/http/fuzz/generate-request.js';
import type { RawResponse } from '../../support/http/raw-response.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';

/** FUZZ_SEED sends the requests of that number again, FUZZ_REQUESTS another number of them. */
const seed = Number(process.env.FUZZ_SEED ?? randomInt(2 ** 31));
const isCounted = process.env.FUZZ_REQUESTS !== undefined;
const perPlatform = Number(process.env.FUZZ_REQUESTS ?? 5_000) / platforms.length;
const REQUESTS_AT_ONCE = 8;
/** What every run has to meet, by name or by the answer's status. */
const FREQUENT = ['executed', 'replayed', '400', '401', '422'];

describe.each(platforms)('on %s', (platform) => {
  const effects = new Effects();
  let app: TestApp;

  beforeAll(async () => {
    app = await startApp({
      platform,
      store: memoryStore({ maxRecords: perPlatform }),
      controllers: [FuzzedController],
      guard: new FuzzedCallers(effects),
      rawBody: true,
    });
    // An idle connection is not to be closed just when the next request is on its way.
    (app.nest.getHttpServer() as Server).keepAliveTimeout = 0;
  });

  afterAll(() => app.close());

  async function send(
    connection: FuzzConnection,
    request: FuzzedRequest,
  ): Promise<readonly RawResponse[]> {
    const { content } = request;
    const bytes = encode(request);
    if (content.isOdd) {
      const leaves = content.cutAt !== undefined || content.framing === 'too-short';
      return sendAlone(app.port, bytes, content.method, leaves);
    }
    const answer = await connection.exchange(bytes, content.method);
    return answer === undefined ? [] : [answer];
  }

  it(`${perPlatform} fuzzed requests: no error, and nothing runs unprotected or twice`, async () => {
    const generator = new RequestGenerator(seed, FUZZED_TARGETS);
    let left = perPlatform;
    const sendAll = async () => {
      const connection = new FuzzConnection(app.port);
      while (left > 0) {
        left -= 1;
        const request = generator.next();
        effects.sent(request);
        effects.answered({ request, answers: await send(connection, request) });
      }
      connection.close();
    };
    await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, sendAll));
    effects.compareAll();

    const found = effects.violations.slice(0, 3).join('\n');
    if (found !== '') throw new Error(`Replay with FUZZ_SEED=${seed}.\n${found}`);
    if (isCounted) process.stdout.write(`seed ${seed}, ${platform}: ${effects.summary()}\n`);
    const often = perPlatform / 200;
    const rare = FREQUENT.filter((what) => effects.seen(what) < often);
    expect(rare).toEqual([]);
  }, 600_000);
});
