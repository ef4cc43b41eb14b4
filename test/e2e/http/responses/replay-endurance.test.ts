import { hash } from 'node:crypto';
import type { Server } from 'node:http';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import {
  ClassSerializerInterceptor,
  Controller,
  Post,
  UseInterceptors,
  type CallHandler,
  type CanActivate,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { map, type Observable } from 'rxjs';
import {
  ResponsesController,
  ExpressResponsesController,
  FastifyResponsesController,
} from '../../../support/http/responses.controller.js';
import { combinations, useStores } from '../../../support/http/combinations.js';
import { lastingHeaders } from '../../../support/http/expectations.js';
import type { RawResponse } from '../../../support/http/wire/raw-response.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';
import { isTestAll } from '../../../support/jest/test-all.js';

const { ENDURANCE_REPLAYS: dose } = process.env;
/** `npm test` compares only the bytes of a few replays. */
const isWhole = isTestAll || dose !== undefined;
const replays = Number(dose ?? (isTestAll ? 200 : 10));
/** Enough for compiled code and full caches. */
const WARM_UP_REPLAYS = 100;
const MAX_GROWTH_BYTES = 10 * 2 ** 20;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

let envelopes = 0;

/** No two envelopes are equal: a replay with a new one would differ. */
class EnvelopeInterceptor implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(map((data: unknown) => ({ data, envelope: (envelopes += 1) })));
  }
}

@Controller()
class EnvelopedController {
  @Post('enveloped')
  @Idempotent()
  @UseInterceptors(EnvelopeInterceptor)
  async enveloped(@InScenario() scenario: Scenario) {
    return { id: await scenario.run() };
  }
}

/** Every caller is alice. Leaves nothing behind on the connection, which all replays share. */
class OnlyAlice implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    context.switchToHttp().getRequest<{ user?: object }>().user = { id: 'alice' };
    return true;
  }
}

const KINDS = {
  '/object': 'an object',
  '/hidden-member': 'a class instance with a hidden member',
  '/enveloped': 'a value that an outer interceptor wrapped',
  '/string': 'a string',
  '/buffer': 'bytes',
  '/streamable-file': 'a file',
  '/no-content': 'an empty 204',
  '/redirect': 'a redirect',
  '/observable-of-many': 'an observable',
  '/dynamic-header': 'a header that differs in each exchange',
  '/native-writes': 'several writes of a native handler',
  '/native-hijack': 'several writes of a native handler',
};

/** A digest of everything that must be equal in each replay. */
function digest(response: RawResponse): string {
  const head = [response.status, ...lastingHeaders(response)].join('\n');
  return hash('sha256', Buffer.concat([Buffer.from(`${head}\n\n`), response.body]));
}

function heapUsed(): number {
  if (isWhole) collectGarbage();
  return process.memoryUsage().heapUsed;
}

const stores = useStores();

describe.each(combinations)('on $platform with $store', ({ platform, store }) => {
  const native = platform === 'express' ? ExpressResponsesController : FastifyResponsesController;
  const others = platform === 'express' ? '/native-hijack' : '/native-writes';
  const paths = Object.keys(KINDS).filter((path) => path !== others);
  let app: TestApp;

  beforeAll(async () => {
    app = await startApp({
      platform,
      store: stores.fresh(store),
      controllers: [ResponsesController, native, EnvelopedController],
      guard: new OnlyAlice(),
      configure: (nest) =>
        nest.useGlobalInterceptors(new ClassSerializerInterceptor(nest.get(Reflector))),
    });
    (app.nest.getHttpServer() as Server).keepAliveTimeout = 0;
  });

  afterAll(() => app.close());

  /** The digests of each kind's replays. All kinds run concurrently, each on its own connection. */
  async function replayAll(scenarios: ReadonlyMap<string, Scenario>, times: number) {
    const digests = new Map<string, Set<string>>();
    await Promise.all(
      [...scenarios].map(async ([path, scenario]) => {
        const seen = new Set<string>();
        for await (const response of scenario.repeatedPosts(path, times)) {
          expect(response.replayed).toBe(true);
          seen.add(digest(response));
        }
        digests.set(path, seen);
      }),
    );
    return digests;
  }

  it(`replays ${paths.length} kinds of responses ${replays} times byte for byte${isWhole ? ' without leaking memory' : ''}`, async () => {
    const scenarios = new Map(paths.map((path) => [path, app.scenario()]));
    const firsts = new Map<string, string>();
    for (const [path, scenario] of scenarios) {
      const first = await scenario.post(path);
      expect(first.replayed).toBe(false);
      firsts.set(path, digest(first));
    }
    if (isWhole) await replayAll(scenarios, WARM_UP_REPLAYS);
    const before = heapUsed();

    const digests = await replayAll(scenarios, replays);
    const growth = heapUsed() - before;
    for (const path of paths) {
      expect({ path, digests: [...digests.get(path)!] }).toEqual({
        path,
        digests: [firsts.get(path)],
      });
      expect({ path, executions: scenarios.get(path)!.executions }).toEqual({
        path,
        executions: 1,
      });
    }
    if (dose !== undefined) {
      process.stdout.write(`${platform} with ${store}: heapUsed grew by ${growth} bytes\n`);
    }
    if (isWhole) expect(growth).toBeLessThan(MAX_GROWTH_BYTES);
  }, 600_000);
});
