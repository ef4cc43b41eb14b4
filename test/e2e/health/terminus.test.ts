import { Controller, Get, Module, Post } from '@nestjs/common';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { describe, expect, it } from '@jest/globals';
import { IdempotencyOptionsError, Idempotent } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import {
  IdempotencyHealthIndicator,
  type IdempotencyHealthIndicatorOptions,
} from 'nestjs-idempotency/terminus';
import { platforms } from '../../support/http/combinations.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { RedisNode } from '../../support/redis/redis-node.js';
import { useServer } from '../../support/servers/use-server.js';
import { Gate } from '../../support/waiting/gate.js';
import { Tally } from '../../support/waiting/tally.js';
import { until } from '../../support/waiting/until.js';

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
