import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Controller, Get, type INestApplication, Module, Param, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { Test } from '@nestjs/testing';
import {
  IdempotencyEvents,
  IdempotencyModule,
  type IdempotencyModuleOptions,
  IdempotencyOptionsError,
  type IdempotencyStore,
  Idempotent,
  keepResponses,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { fromPg } from 'nestjs-idempotency/pg';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import {
  IdempotencyHealthIndicator,
  type IdempotencyHealthIndicatorOptions,
} from 'nestjs-idempotency/terminus';
import { documentationPages } from '../support/docs/documented-blocks.js';
import { platforms } from '../support/http/combinations.js';
import { startApp, type TestApp } from '../support/http/start-app.js';
import { fingerprint, newOwnerToken, nodeClock, recordKey } from '../support/internals/core.js';
import { encodeResponse } from '../support/internals/http.js';
import { openPostgresPool } from '../support/postgres/postgres-pool.js';
import { embeddedPostgres } from '../support/postgres/postgres-servers.js';
import { projectRoot } from '../support/project-root.js';
import { RedisNode } from '../support/redis/redis-node.js';
import { startRedis } from '../support/redis/redis-server.js';
import { useRedis, useRedisClient } from '../support/redis/use-redis.js';
import { freePort } from '../support/servers/free-port.js';
import { useServer } from '../support/servers/use-server.js';
import { namedFor } from '../support/stores/named-for.js';
import { typescriptNodeOptions } from '../support/typescript/node-options.js';
import { Gate } from '../support/waiting/gate.js';
import { Tally } from '../support/waiting/tally.js';
import { until, untilSettled } from '../support/waiting/until.js';

describe('applications', () => {
  /** The id of every charge. */
  const charged: string[] = [];
  const gate = new Gate();

  @Controller()
  class Payments {
    @Post('pay/:id')
    @Idempotent({ duplicates: 'wait' })
    async pay(@Param('id') id: string) {
      charged.push(id);
      await gate.pass();
      return { charge: charged.length };
    }
  }

  const redis = useServer(startRedis);
  const redisClient = useRedisClient(redis);
  const postgres = useServer(() => embeddedPostgres.start());
  let database: string;
  const pool = useServer(
    async () => {
      database = await postgres.newDatabase();
      const opened = openPostgresPool(database);
      await migrate({ executor: fromPg(opened) });
      return opened;
    },
    (opened) => opened.end(),
  );

  const running = new Set<INestApplication>();
  afterEach(async () => {
    gate.open();
    for (const app of running) await app.close();
    running.clear();
  });

  type Making = 'Test.createTestingModule' | 'NestFactory.create';

  function moduleWith(store: IdempotencyStore, options: Partial<IdempotencyModuleOptions>) {
    @Module({
      imports: [
        IdempotencyModule.forRoot({
          store,
          ...namedFor(store),
          ...options,
          caller: { anonymous: 'shared', ...options.caller },
        }),
      ],
      controllers: [Payments],
    })
    class AppModule {}
    return AppModule;
  }

  async function start(AppModule: new () => object, making: Making) {
    const app =
      making === 'NestFactory.create'
        ? await NestFactory.create(AppModule, { logger: false, abortOnError: false })
        : (
            await Test.createTestingModule({ imports: [AppModule] }).compile()
          ).createNestApplication({
            logger: false,
          });
    await app.listen(0, '127.0.0.1');
    running.add(app);
    const url = await app.getUrl();
    const pay = async (id: string) => {
      const headers = { 'Idempotency-Key': id };
      const response = await fetch(`${url}/pay/${id}`, { method: 'POST', headers });
      const replayed = response.headers.has('idempotent-replayed');
      return { status: response.status, body: await response.text(), replayed };
    };
    const events = app.get(IdempotencyEvents, { strict: false });
    const reported: string[] = [];
    events.subscribe(({ type }) => void reported.push(type));
    const close = async () => {
      running.delete(app);
      await app.close();
    };
    return { pay, reported, close };
  }

  const chargesOf = (id: string) => charged.filter((one) => one === id).length;

  interface Tested {
    readonly name: string;
    readonly make: () => IdempotencyStore;
    readonly options?: Partial<IdempotencyModuleOptions>;
    /** The open connections of the store. */
    readonly connections?: () => Promise<number>;
    readonly forgets?: boolean;
  }

  const ofRedis = async () =>
    String(await redisClient.client('LIST')).split('name=nestjs-idempotency ').length - 1;
  const ofPostgres = async () => {
    const { rows } = await pool.query<{ count: number }>(
      "SELECT count(*)::integer FROM pg_stat_activity WHERE application_name = 'nestjs-idempotency'",
    );
    return rows[0]!.count;
  };
  const sharedUrl = () => redisStore({ url: redis.url });
  const postgresUrl = () => postgresStore({ url: database });

  const STORES: Tested[] = [
    { name: 'memoryStore()', make: () => memoryStore(), forgets: true },
    { name: 'redisStore({ url })', make: sharedUrl, connections: ofRedis },
    {
      name: 'redisStore({ url }), breaker',
      make: sharedUrl,
      options: { breaker: true },
      connections: ofRedis,
    },
    { name: 'redisStore({ client })', make: () => redisStore({ client: redisClient }) },
    { name: 'postgresStore({ url })', make: postgresUrl, connections: ofPostgres },
    {
      name: 'postgresStore({ executor, listenUrl })',
      make: () => postgresStore({ executor: fromPg(pool), listenUrl: database }),
      connections: ofPostgres,
    },
  ];

  describe.each(STORES)('Applications of one module on one $name', (tested) => {
    const { make, options = {}, connections = () => Promise.resolve(0), forgets = false } = tested;

    it('start one after another, and leave no connection behind', async () => {
      const AppModule = moduleWith(make(), options);
      const early = randomUUID();
      for (const making of [
        'Test.createTestingModule',
        'NestFactory.create',
        'NestFactory.create',
      ] as const) {
        const { pay, close } = await start(AppModule, making);
        const id = randomUUID();
        const first = await pay(id);
        expect(first).toMatchObject({ status: 201, replayed: false });
        expect(await pay(id)).toEqual({ ...first, replayed: true });
        expect(chargesOf(id)).toBe(1);
        expect((await pay(early)).status).toBe(201);
        await close();
        await untilSettled(async () => (await connections()) === 0);
      }
      // Records in memory end with their last application; other stores keep them.
      expect(chargesOf(early)).toBe(forgets ? 3 : 1);
    }, 30_000);

    it('run concurrently: closing one does not affect the other', async () => {
      const AppModule = moduleWith(make(), options);
      const one = await start(AppModule, 'Test.createTestingModule');
      const other = await start(AppModule, 'NestFactory.create');
      const [shared, id] = [randomUUID(), randomUUID()];
      const paid = await one.pay(shared);
      expect(await other.pay(shared)).toEqual({ ...paid, replayed: true });
      expect(one.reported).toEqual(['acquired', 'completed', 'ended']);
      expect(other.reported).toEqual(['replayed']);

      gate.close();
      const slow = other.pay(id);
      while (chargesOf(id) === 0) await new Promise(setImmediate);
      const waiting = other.pay(id);
      while (other.reported.at(-1) !== 'acquired') await new Promise(setImmediate);
      await one.close();
      gate.open();
      const response = await slow;
      expect(response).toMatchObject({ status: 201, replayed: false });
      expect(await waiting).toEqual({ ...response, replayed: true });
      expect(await other.pay(shared)).toEqual({ ...paid, replayed: true });
      expect((await other.pay(randomUUID())).status).toBe(201);
      expect([chargesOf(shared), chargesOf(id)]).toEqual([1, 1]);
      await other.close();
      await untilSettled(async () => (await connections()) === 0);
    }, 30_000);
  });
});

describe('readme', () => {
  const run = promisify(execFile);
  const read = (page: string) => readFile(join(projectRoot, page), 'utf8');
  const server = useRedis();

  /** Nest reports its start before it listens. */
  async function untilListening(app: ChildProcess, port: number): Promise<void> {
    for (;;) {
      if (app.exitCode !== null || app.signalCode !== null)
        throw new Error(`the application exited with ${String(app.exitCode ?? app.signalCode)}`);
      const socket = connect(port, '127.0.0.1');
      const isListening = await new Promise<boolean>((resolve) => {
        socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
      });
      socket.destroy();
      if (isListening) return;
      await pause(20);
    }
  }

  describe('the example in the README', () => {
    let app: ChildProcess;
    let address: string;

    beforeAll(async () => {
      const port = await freePort();
      address = `127.0.0.1:${String(port)}`;
      const file = join(projectRoot, 'examples/readme/main.ts');
      app = spawn(process.execPath, [...typescriptNodeOptions, file], {
        env: { ...process.env, NODE_OPTIONS: '', PORT: String(port), REDIS_URL: server.url },
        stdio: ['ignore', 'ignore', 'inherit'],
      });
      await untilListening(app, port);
    }, 60_000);

    afterAll(() => {
      app.kill('SIGKILL');
    });

    it('charges once for its two commands, which print what it shows', async () => {
      const readme = await read('README.md');
      const commands = readme.match(/^curl .+$/gm) ?? [];
      expect(commands).toHaveLength(2);
      const responses: string[] = [];
      for (const command of commands) {
        expect(command).toContain(' localhost:3000/payments ');
        const { stdout } = await run('sh', ['-c', command.replace('localhost:3000', address)]);
        responses.push(stdout);
      }
      const [first, second] = responses as [string, string];
      const [, shown = ''] = /^```http\n(.*?)\n```$/ms.exec(readme) ?? [];
      const withoutTime = (text: string) =>
        text.replaceAll('\r\n', '\n').replace(/^Date: .+ GMT$/gm, 'Date: …');
      expect(withoutTime(`${first}\n\n${second}`)).toBe(withoutTime(shown));
      expect(first).not.toMatch(/^Idempotent-Replayed:/im);
      expect(second).toMatch(/^Idempotent-Replayed: true\r$/m);
      expect(responses.every((text) => text.endsWith('\r\n{"charge":1,"amount":"1200"}'))).toBe(
        true,
      );
    });
  });

  it('docs/reference/options.md states which statuses are not kept', async () => {
    const options = await read('docs/reference/options.md');
    const [, released = ''] = /4xx but ([\d, and]+)/.exec(options) ?? [];
    const statuses = Array.from({ length: 100 }, (_, i) => 400 + i);
    expect(released.match(/\d+/g)?.map(Number)).toEqual(
      statuses.filter((status) => !keepResponses({ status })),
    );
  });

  /** Of the outcome that is measured. */
  const HEADER_BYTES = 134;

  describe('the memory of a record in the documentation', () => {
    const client = useRedisClient(server);

    const bytes = async (key: string) => Number(await client.call('MEMORY', 'USAGE', key));

    /** Bytes of a record while in progress and when completed, for a response body of `bodyBytes`. */
    async function measured(bodyBytes: number): Promise<{ running: number; done: number }> {
      const store = redisStore({ client });
      const key = recordKey({ service: 's', scope: ['u'], operation: 'o', key: String(bodyBytes) });
      const token = newOwnerToken(nodeClock);
      const print = fingerprint(['']);
      const timeoutMs = 1_000;
      const reply = await store.begin({
        recordKey: key,
        token,
        fingerprint: print,
        leaseMs: 10_000,
        maxExecutionMs: 300_000,
        recordRetentionMs: 86_700_000,
        notAfter: 0,
        onExpiredLease: 'takeover',
        timeoutMs,
      });
      if (reply.kind !== 'acquired') throw new Error(reply.kind);
      const running = await bytes(`idem:1:${key}`);
      const response = {
        status: 201,
        headers: {
          'content-type': 'application/json; charset=utf-8',
          etag: 'W/"22-abcdefghijklmnopqrstuvwxyz0"',
          location: '/payments/123456',
        },
        body: Buffer.alloc(bodyBytes, 'x'),
      };
      const outcome = encodeResponse(response);
      expect(outcome.header).toHaveLength(HEADER_BYTES);
      await store.complete(
        { recordKey: key, token, fence: reply.fence },
        {
          state: 'completed',
          outcome,
          retentionMs: 86_400_000,
          fingerprint: print,
          whenGone: 'restore',
          timeoutMs,
        },
      );
      return { running, done: await bytes(`idem:1:${key}`) };
    }

    it.each([
      { body: 0, running: 216, done: 328 },
      { body: 200, running: 216, done: 552 },
      { body: 1_000, running: 216, done: 1_384 },
      { body: 4_000, running: 216, done: 5_224 },
    ])('stays below its formula, with a body of $body bytes', async ({ body, running, done }) => {
      const real = await measured(body);
      const pages = await Promise.all(documentationPages().map(read));
      const formula = /([\d.]+) × \(body \+ headers\) \+ (\d+) bytes/g;
      const formulas = [...pages.join('\n').matchAll(formula)];
      expect(formulas.length).toBeGreaterThanOrEqual(1);
      for (const [, factor, rest] of formulas) {
        expect(real.done).toBeLessThanOrEqual(
          Number(factor) * (body + HEADER_BYTES) + Number(rest),
        );
      }
      // Other versions allocate otherwise.
      if ((await client.info('server')).includes('redis_version:7.0')) {
        expect(real).toEqual({ running, done });
      }
    });
  });
});

describe('health', () => {
  /** Of every check in this file, so that each is a new probe. */
  const OPTIONS = { maxAge: 0, timeout: 1_000 };

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

    it('responds with 200, and with 503 while Redis is gone, unless it only reports', async () => {
      await untilReady();
      for (const path of ['ready', 'writes', 'without']) {
        expect(await health(path)).toEqual({ status: 200, document: documentOf('ok', UP) });
      }
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
        'IdempotencyHealthIndicator.check(): The option "whenDown" must be "down" or "report"',
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
});
