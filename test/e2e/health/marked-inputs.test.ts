import { Body, Controller, Get, Module, Post, type ExecutionContext } from '@nestjs/common';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  IdempotencyEvents,
  IdempotencyHealth,
  IdempotencyMeter,
  Idempotent,
  StoreUnavailableError,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { openTelemetry } from 'nestjs-idempotency/opentelemetry';
import { prometheus } from 'nestjs-idempotency/prometheus';
import { DelegatingStore, type StoreObserver } from 'nestjs-idempotency/store';
import { IdempotencyHealthIndicator } from 'nestjs-idempotency/terminus';
import { Registry } from 'prom-client';
import { startApp } from '../../support/http/start-app.js';
import { TestProvider } from '../../support/metrics/test-provider.js';
import { FaultyStore } from '../../support/stores/faulty-store.js';
import { until } from '../../support/waiting/until.js';

const PROBES = ['read', 'write', 'observe'] as const;

@Controller()
class MarkedController {
  constructor(
    private readonly terminus: HealthCheckService,
    private readonly idempotency: IdempotencyHealthIndicator,
  ) {}

  @Post('things')
  @Idempotent()
  create(@Body() body: object) {
    return body;
  }

  @Get('ready')
  @HealthCheck()
  ready() {
    const checks = PROBES.map(
      (probe) => () => this.idempotency.check(probe, { probe, maxAgeMs: 0 }),
    );
    return this.terminus.check(checks);
  }
}

@Module({
  imports: [TerminusModule.forRoot({ logger: false })],
  controllers: [MarkedController],
  providers: [IdempotencyHealthIndicator],
})
class MarkedModule {}

/** Shows all that it knows in its errors and warnings, as no store should. */
class TalkativeStore extends FaultyStore {
  private observer: StoreObserver | undefined;

  override async open(observer?: StoreObserver) {
    this.observer = observer;
    return super.open(observer);
  }

  /** The next commands fail with these words in their error. @param isForeign - even in its code. */
  failWith(words: string, isForeign: boolean): void {
    this.observer!.warned({ code: 'too_talkative', message: words });
    const error = new StoreUnavailableError(words, { cause: words });
    Object.assign(error, { [words]: words }, isForeign && { name: words, code: words });
    this.always(() => Promise.reject(error), 'begin', 'inspect');
  }
}

const mark = fc.stringMatching(/^[a-zA-Z0-9]{12}$/);
const inputs = fc.record({ key: mark, user: mark, body: mark, header: mark });

it('no key, caller, body, record key or error of the store is in a health report, a reading or a metric', async () => {
  const registry = new Registry();
  const sdk = new TestProvider().register();
  const store = new TalkativeStore(new DelegatingStore(memoryStore()));
  const app = await startApp({
    platform: 'express',
    store,
    controllers: [],
    imports: [MarkedModule],
    guard: {
      canActivate: (context: ExecutionContext) => {
        const request = context.switchToHttp().getRequest<Record<string, unknown>>();
        const { authorization } = request.headers as { authorization?: string };
        return Object.assign(request, { user: { id: authorization } }) === request;
      },
    },
    options: {
      breaker: { errorThresholdPercentage: 1, volumeThreshold: 2, probeIntervalMs: 10 },
      telemetry: [prometheus({ registry }), openTelemetry()],
    },
  });
  const recordKeys: string[] = [];
  app.nest.get(IdempotencyEvents, { strict: false }).subscribe(
    ({ recordKey }) => {
      if (recordKey !== undefined) recordKeys.push(recordKey);
    },
    { replacesLog: true },
  );
  const health = app.nest.get(IdempotencyHealth, { strict: false });
  const url = `http://127.0.0.1:${String(app.port)}`;
  const seen: string[] = [];
  const meter = app.nest.get(IdempotencyMeter, { strict: false });
  const report = async () => {
    const { operations, ...others } = meter.read();
    seen.push(JSON.stringify([...operations, others]));
    seen.push(await (await fetch(`${url}/ready`)).text());
    for (const probe of PROBES) {
      seen.push(JSON.stringify(await health.check({ probe, maxAgeMs: 0 })));
    }
    seen.push(await registry.metrics(), JSON.stringify(await sdk.read()));
  };
  try {
    for (const [index, { key, user, body, header }] of fc.sample(inputs, 20).entries()) {
      const send = async () => {
        const headers = {
          'idempotency-key': `"${key}"`,
          authorization: user,
          'x-header': header,
          'content-type': 'application/json',
        };
        const init = { method: 'POST', headers, body: JSON.stringify({ body }) };
        return (await fetch(`${url}/things`, init)).status;
      };
      seen.length = recordKeys.length = 0;
      expect(await send()).toBe(201);
      await report();
      store.failWith([key, user, body, header, recordKeys[0]].join(' '), index % 2 === 0);
      expect(await send()).toBe(503);
      await report();
      store.heal();
      await until(async () => (await health.check({ maxAgeMs: 0 })).status === 'up');
      const all = seen.join('\n');
      expect(all).toContain('"errorType":"idempotency_store_unavailable"');
      expect(all).toContain('too_talkative');
      if (index % 2 === 1) expect(all).toContain('"breaker":"open"');
      expect(all).toMatch(/^idempotency_requests_total\{.*result="store_unavailable"\} [1-9]/m);
      expect(all).toContain('"idempotency.result":"store_unavailable"');
      const marks = [key, user, body, header, ...recordKeys];
      expect(marks.length).toBeGreaterThan(5);
      expect(marks.filter((each) => all.includes(each))).toEqual([]);
    }
  } finally {
    await app.close();
  }
});
