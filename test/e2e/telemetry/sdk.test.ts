import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { Controller, Post } from '@nestjs/common';
import { trace } from '@opentelemetry/api';
import { Idempotent, IdempotencyEvents, IdempotencyService } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { openTelemetry } from 'nestjs-idempotency/opentelemetry';
import { InScenario, type Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { LoggedLines } from '../../support/nest/logged-lines.js';
import { projectRoot } from '../../support/project-root.js';
import {
  idOf,
  linksOf,
  TestSdk,
  traceRequests,
  written,
} from '../../support/telemetry/test-sdk.js';

const { name, version } = JSON.parse(
  readFileSync(join(projectRoot, 'package.json'), 'utf8'),
) as Readonly<Record<string, unknown>>;

@Controller()
class Payments {
  @Post('payments')
  @Idempotent({ operation: 'payments.create' })
  create(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

let app: TestApp;
let sdk: TestSdk | undefined;
const log = new LoggedLines();

/** The application starts without an SDK. */
beforeEach(async () => {
  app = await startApp({
    platform: 'express',
    store: memoryStore(),
    controllers: [Payments],
    options: { telemetry: openTelemetry(), caller: { scope: () => 'tester' } },
    configure: (nest) => {
      traceRequests(nest);
      nest.useLogger(log);
    },
  });
});
afterEach(async () => {
  await app.close();
  await sdk?.stop();
  sdk = undefined;
  expect(log.own).toEqual([]);
});

const idOfActive = () => trace.getActiveSpan()?.spanContext().spanId;

const call = (key: string) =>
  app.nest
    .get(IdempotencyService, { strict: false })
    .run({ operation: 'mails.send', key, scope: 'alice' }, () => idOfActive());

/** Sends a first request, its retry and a call. @returns the spans that they have. */
async function traced(scenario: Scenario): Promise<TestSdk['spans']> {
  const before = sdk!.spans.length;
  await scenario.post('/payments');
  await sdk!.ended(before + 1);
  await scenario.post('/payments');
  await sdk!.ended(before + 2);
  await call(scenario.key);
  return sdk!.spans.slice(before);
}

function expectTraced([first, replay, called]: TestSdk['spans']): void {
  expect(written(first!)).toMatchObject({
    'idempotency.result': 'executed',
    'idempotency.attempt.end': 'completed',
  });
  expect(linksOf(replay!)).toEqual([[idOf(first), 'first_execution']]);
  expect(called!.name).toBe('idempotent mails.send');
  expect(called!.instrumentationScope).toMatchObject({ name, version });
}

it('without an SDK, requests and calls are served, and nothing is kept', async () => {
  const scenario = app.scenario();
  const traces: unknown[] = [];
  app.nest.get(IdempotencyEvents).subscribe((event) => {
    if (event.type === 'replayed') traces.push(event.trace);
  });
  expect((await scenario.post('/payments')).status).toBe(201);
  expect((await scenario.post('/payments')).replayed).toBe(true);
  expect(await call('without')).toBeUndefined();
  expect(traces).toEqual([undefined]);
});

it('an SDK that starts after the application gets its spans', async () => {
  const early = app.scenario();
  await early.post('/payments');
  await call('early');
  sdk = TestSdk.start();
  expectTraced(await traced(app.scenario()));
  await early.post('/payments');
  const [, , , replay] = await sdk.ended(4);
  expect(written(replay!)).toMatchObject({ 'idempotency.result': 'replayed' });
  expect(linksOf(replay!)).toEqual([]);
});

it('an SDK that starts again, twice, gets its spans, and links lead to those of the last one', async () => {
  const known = app.scenario();
  sdk = TestSdk.start();
  expectTraced(await traced(known));
  const first = idOf(sdk.spans[0]);
  for (let restart = 0; restart < 2; restart += 1) {
    await sdk.stop();
    await call(`stopped ${String(restart)}`);
    sdk = TestSdk.start();
    expectTraced(await traced(app.scenario()));
    await known.post('/payments');
    expect(linksOf((await sdk.ended(4))[3]!)).toEqual([[first, 'first_execution']]);
  }
});

it('an attempt that outlives its SDK ends without a span', async () => {
  sdk = TestSdk.start();
  const scenario = app.scenario();
  scenario.gate.close();
  const running = scenario.post('/payments');
  await scenario.started.reached(1);
  await sdk.stop();
  sdk = TestSdk.start();
  scenario.gate.open();
  expect((await running).status).toBe(201);
  expect(sdk.spans).toEqual([]);
  expectTraced(await traced(app.scenario()));
});
