import { Body, Controller, type ExecutionContext, Get, Module, Post } from '@nestjs/common';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { describe, expect, it } from '@jest/globals';
import {
  IdempotencyEvents,
  IdempotencyHealth,
  IdempotencyMeter,
  IdempotencyOptionsError,
  Idempotent,
  StoreUnavailableError,
} from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import {
  IdempotencyHealthIndicator,
  type IdempotencyHealthIndicatorOptions,
} from 'nestjs-idempotency/terminus';
import { memoryStore } from 'nestjs-idempotency/memory';
import { openTelemetry } from 'nestjs-idempotency/opentelemetry';
import { prometheus } from 'nestjs-idempotency/prometheus';
import { DelegatingStore, type StoreObserver } from 'nestjs-idempotency/store';
import fc from 'fast-check';
import { Registry } from 'prom-client';
import { platforms } from '../../support/http/combinations.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { RedisNode } from '../../support/redis/redis-node.js';
import { useServer } from '../../support/servers/use-server.js';
import { Gate } from '../../support/waiting/gate.js';
import { Tally } from '../../support/waiting/tally.js';
import { until } from '../../support/waiting/until.js';
import { TestProvider } from '../../support/metrics/test-provider.js';
import { FaultyStore } from '../../support/stores/faulty-store.js';

/** Of every check in this file, so that each is a new probe. */
const OPTIONS = { maxAgeMs: 0, timeoutMs: 1_000 };

@Controller('health')
class HealthController {
  constructor(
    private readonly terminus: HealthCheckService,
    private readonly idempotency: IdempotencyHealthIndicator,
  ) {}

  @Get('ready')
  @HealthCheck()
  ready() {
    return this.check(OPTIONS);
  }

  @Get('writes')
  @HealthCheck()
  writes() {
    return this.check({ ...OPTIONS, probe: 'write' });
  }

  @Get('without')
  @HealthCheck()
  without() {
    return this.check({ ...OPTIONS, whenDown: 'report' });
  }

  private check(options: IdempotencyHealthIndicatorOptions) {
    return this.terminus.check([() => this.idempotency.check('idempotency', options)]);
  }
}

@Module({
  imports: [TerminusModule.forRoot({ logger: false })],
  controllers: [HealthController],
  providers: [IdempotencyHealthIndicator],
})
class HealthModule {}

const gate = new Gate();
const started = new Tally();

@Controller()
class OrdersController {
  @Post('orders')
  @Idempotent()
  async create() {
    started.add();
    await gate.pass();
    return { created: true };
  }
}

const UP = { status: 'up', store: 'redis', running: 0, waiting: 0 };
const DOWN = { ...UP, status: 'down', errorType: 'idempotency_store_unavailable' };

/** The document of terminus for one indicator. */
function documentOf(status: 'ok' | 'error' | 'shutting_down', idempotency: object) {
  const details = { idempotency: expect.objectContaining(idempotency) };
  return {
    status,
    info: status === 'ok' ? details : {},
    error: status === 'ok' ? {} : details,
    details,
  };
}

describe.each(platforms)('the health indicator on %s', (platform) => {
  const redis = useServer(() => RedisNode.start());
  let isClosed = false;
  const app: TestApp = useServer(
    () =>
      startApp({
        platform,
        store: redisStore({ url: redis.url, onConnectionError: () => undefined }),
        controllers: [OrdersController],
        imports: [HealthModule],
        guard: { canActivate: () => true },
        options: { caller: { anonymous: 'shared' } },
      }),
    (started) => (isClosed ? undefined : started.close()),
  );

  async function health(path: string) {
    const response = await fetch(`http://127.0.0.1:${app.port}/health/${path}`);
    const document = (await response.json()) as { readonly status: string };
    return { status: response.status, document };
  }

  const untilReady = () => until(async () => (await health('writes')).status === 200);

  it('responds with 200 and the document of terminus', async () => {
    await untilReady();
    for (const path of ['ready', 'writes', 'without']) {
      expect(await health(path)).toEqual({ status: 200, document: documentOf('ok', UP) });
    }
  });

  it('responds with 503 while Redis is gone, unless it only reports, and with 200 afterwards', async () => {
    await untilReady();
    await redis.kill();
    for (const path of ['ready', 'writes']) {
      expect(await health(path)).toEqual({ status: 503, document: documentOf('error', DOWN) });
    }
    expect(await health('without')).toEqual({
      status: 200,
      document: documentOf('ok', { ...DOWN, status: 'up' }),
    });
    await redis.start();
    await untilReady();
  });

  it('rejects an invalid option with its name', async () => {
    const indicator = app.nest.get(IdempotencyHealthIndicator, { strict: false });
    const rejected = indicator.check('idempotency', { whenDown: 'ignore' } as never);
    await expect(rejected).rejects.toThrow(IdempotencyOptionsError);
    await expect(rejected).rejects.toThrow(
      'IdempotencyHealthIndicator.check(): The option "whenDown" must be "down", "report"',
    );
  });

  it('responds with 503 during the shutdown, also if it only reports, until running requests have ended', async () => {
    await untilReady();
    gate.close();
    const before = started.count;
    const running = fetch(`http://127.0.0.1:${app.port}/orders`, {
      method: 'POST',
      headers: { 'idempotency-key': `"on ${platform}"` },
    });
    await started.reached(before + 1);
    const closed = app.close();
    isClosed = true;
    try {
      // Terminus has a status of its own for it, from a later moment on.
      await until(async () => (await health('without')).document.status === 'shutting_down');
      const draining = { ...DOWN, running: 1, errorType: 'idempotency_shutting_down' };
      for (const path of ['ready', 'writes', 'without']) {
        const document = documentOf('shutting_down', draining);
        expect(await health(path)).toEqual({ status: 503, document });
      }
    } finally {
      gate.open();
    }
    expect((await running).status).toBe(201);
    await closed;
  });
});

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
