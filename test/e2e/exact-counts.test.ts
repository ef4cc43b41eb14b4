import { AsyncLocalStorage, createHook } from 'node:async_hooks';
import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { Controller, HttpCode, Module, Post, Res, type INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter, type NestExpressApplication } from '@nestjs/platform-express';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import { IdempotencyModule, Idempotent, type IdempotencyModuleOptions } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { platforms, type Platform } from '../support/http/combinations.js';
import { SERVICE } from '../support/stores/named-for.js';
import { Gate } from '../support/waiting/gate.js';
import { KeepAliveConnection } from '../support/http/wire/raw-client.js';
import type { RawResponse } from '../support/http/wire/raw-response.js';
import type { Reply } from '../support/http/reply.js';
import { Tally } from '../support/waiting/tally.js';
import { RedisCluster } from '../support/redis/redis-cluster.js';
import { SentCommands } from '../support/redis/sent-commands.js';
import { useRedis } from '../support/redis/use-redis.js';
import { START_HOOK_MS } from '../support/servers/start-server.js';
import { useServer } from '../support/servers/use-server.js';

/** DESIGN's budget for one record: key of 59 B, body of 200 B, own headers of 68 B. */
const KEY_PREFIX = 'memory-budget';
const KEY_BYTES = 59;
const BODY_BYTES = 200;
const HEADER_BYTES = 68;
const RECORD_BYTES_AT_MOST = 488;

const LARGE_BYTES = 65_536;

/** What the store sends, on any connection. */
const COMMANDS = [
  { path: '/payments', first: ['evalsha', 'evalsha'], replay: ['evalsha'] },
  { path: '/large', first: ['evalsha', 'set', 'evalsha'], replay: ['evalsha', 'get'] },
];

const CONNECTIONS = 4;
const REQUESTS = 800;

/** Marks what the application does, as opposed to other test files in this process. */
const ofTheApp = new AsyncLocalStorage<true>();

const gate = new Gate();
const started = new Tally();

@Controller()
@Idempotent({ caller: { anonymous: 'shared' } })
class Payments {
  @Post('payments')
  pay() {
    return { id: 'x'.repeat(BODY_BYTES - '{"id":""}'.length) };
  }

  @Post('budget')
  budget(@Res({ passthrough: true }) reply: Reply) {
    // With Content-Type, which the platform adds, 68 bytes of names and values.
    reply.header('location', '/payments/1234567');
    return this.pay();
  }

  @Post('looked-up')
  @Idempotent({ lease: { onTakeover: () => 'run', recoverOn: 'always' } })
  lookedUp() {
    return this.pay();
  }

  /** Its record is above the size from which the store sends records by SET and GET. */
  @Post('large')
  large() {
    return { id: 'x'.repeat(LARGE_BYTES) };
  }

  @Post('held')
  async held() {
    started.add();
    await gate.pass();
    return { held: true };
  }

  @Post('declined')
  @HttpCode(503)
  declined() {
    return { code: 'down' };
  }
}

@Module({})
class AppModule {}

async function start(
  platform: Platform,
  store: ReturnType<typeof redisStore>,
  annotate: IdempotencyModuleOptions['annotate'] = false,
) {
  const module = {
    module: AppModule,
    imports: [
      IdempotencyModule.forRoot({
        service: SERVICE,
        store,
        annotate,
        storeErrors: { commandTimeout: 5_000 },
      }),
    ],
    controllers: [Payments],
  };
  const settings = { logger: false, abortOnError: false } as const;
  let app: INestApplication;
  if (platform === 'express') {
    const express = await NestFactory.create<NestExpressApplication>(
      module,
      new ExpressAdapter(),
      settings,
    );
    // The budget does not include an ETag header.
    express.disable('etag');
    app = express;
  } else {
    app = await NestFactory.create<NestFastifyApplication>(module, new FastifyAdapter(), settings);
  }
  await app.listen(0, '127.0.0.1');
  return { app, port: (app.getHttpServer().address() as { port: number }).port };
}

let keys = 0;
const newKey = () => `key-${(keys += 1)}`;

describe.each(platforms)('on %s with Redis', (platform) => {
  const redis = useRedis();
  let client: Redis;
  let app: INestApplication;
  let port: number;
  let commands: SentCommands;
  const connections: KeepAliveConnection[] = [];
  const sockets: Socket[] = [];

  beforeAll(async () => {
    client = new Redis(redis.url);
    const store = redisStore({ client, keyPrefix: KEY_PREFIX });
    ({ app, port } = await ofTheApp.run(true, () => start(platform, store)));
    (app.getHttpServer() as EventEmitter).on('connection', (socket: Socket) =>
      sockets.push(socket),
    );
    connections.push(...Array.from({ length: CONNECTIONS }, () => new KeepAliveConnection(port)));
    commands = await SentCommands.to(redis);
    // The first call of each script also sends its text.
    for (const path of ['/payments', '/declined']) {
      const key = newKey();
      await post(path, key);
      await post(path, key);
    }
  });

  afterAll(async () => {
    gate.open();
    for (const connection of connections) connection.close();
    commands.stop();
    await app.close();
    client.disconnect();
  });

  function post(
    path: string,
    key: string,
    body = '{"amount":1}',
    connection: number | KeepAliveConnection = 0,
  ) {
    const lines = [
      ['Idempotency-Key', key],
      ['Content-Type', 'application/json'],
    ] as const;
    const request = { method: 'POST', path, lines, body: Buffer.from(body) };
    const used = typeof connection === 'number' ? connections[connection]! : connection;
    return used.exchange(request);
  }

  async function expectStatus(received: Promise<RawResponse>, status: number, replayed = false) {
    const response = await received;
    expect({ status: response.status, replayed: response.replayed }).toEqual({ status, replayed });
  }

  describe('the client sends', () => {
    it('2 commands for a first request', async () => {
      const sent = await commands.during(() => expectStatus(post('/payments', newKey()), 201));
      expect(sent).toEqual(['evalsha', 'evalsha']);
    });

    it('1 command for a replay', async () => {
      const key = newKey();
      await post('/payments', key);
      const sent = await commands.during(() => expectStatus(post('/payments', key), 201, true));
      expect(sent).toEqual(['evalsha']);
    });

    it("2 and 1 with a function that is asked before the attempt (lease.recoverOn: 'always')", async () => {
      const key = newKey();
      const first = () => expectStatus(post('/looked-up', key), 201);
      expect(await commands.during(first)).toEqual(['evalsha', 'evalsha']);
      const replay = () => expectStatus(post('/looked-up', key), 201, true);
      expect(await commands.during(replay)).toEqual(['evalsha']);
    });

    it('1 command for a conflict', async () => {
      const key = newKey();
      gate.close();
      const running = started.count;
      const first = post('/held', key, undefined, 1);
      await started.reached(running + 1);
      const sent = await commands.during(() => expectStatus(post('/held', key), 409));
      expect(sent).toEqual(['evalsha']);
      gate.open();
      await expectStatus(first, 201);
    });

    it('1 command for a mismatch, of a completed request and of one in progress', async () => {
      const key = newKey();
      gate.close();
      const running = started.count;
      const first = post('/held', key, undefined, 1);
      await started.reached(running + 1);
      const mismatch = () => expectStatus(post('/held', key, '{"amount":2}'), 422);
      expect(await commands.during(mismatch)).toEqual(['evalsha']);
      gate.open();
      await expectStatus(first, 201);
      expect(await commands.during(mismatch)).toEqual(['evalsha']);
    });

    it('2 commands for a request that is released', async () => {
      const sent = await commands.during(() => expectStatus(post('/declined', newKey()), 503));
      expect(sent).toEqual(['evalsha', 'evalsha']);
    });

    it('3 commands for a first request with a large response, 2 for its replay, 1 for a mismatch', async () => {
      await expectStatus(post('/large', newKey()), 201);
      const key = newKey();
      const first = () => expectStatus(post('/large', key), 201);
      expect(await commands.during(first)).toEqual(['evalsha', 'set', 'evalsha']);
      const replay = () => expectStatus(post('/large', key), 201, true);
      expect(await commands.during(replay)).toEqual(['evalsha', 'get']);
      const mismatch = () => expectStatus(post('/large', key, '{"amount":2}'), 422);
      expect(await commands.during(mismatch)).toEqual(['evalsha']);
    });

    it('none for a request without a valid key', async () => {
      const sent = await commands.during(() => expectStatus(post('/payments', '"'), 400));
      expect(sent).toEqual([]);
    });
  });

  it(`a record of the budget takes at most ${RECORD_BYTES_AT_MOST} B of Redis' memory`, async () => {
    await client.flushdb();
    await expectStatus(post('/budget', newKey()), 201);
    const [name = ''] = await client.keys('*');
    expect(name).toHaveLength(KEY_BYTES);
    expect(name).toMatch(new RegExp(`^${KEY_PREFIX}:1:`));
    const [, , header = '', body = ''] = (await client.get(name))!.split('\n');
    const [, , headers] = JSON.parse(header) as [number, number, Record<string, string>];
    expect(Object.entries(headers).flat().join('')).toHaveLength(HEADER_BYTES);
    expect(body).toHaveLength(BODY_BYTES);
    const bytes = await client.memory('USAGE', name);
    process.stdout.write(`${platform}: MEMORY USAGE of a record of the budget: ${bytes} B\n`);
    expect(bytes).toBeLessThanOrEqual(RECORD_BYTES_AT_MOST);
  });

  it(`${REQUESTS} requests over ${CONNECTIONS} connections leave no listener and no timer behind`, async () => {
    const live = new Set<number>();
    let created = 0;
    const timers = createHook({
      init: (id, type) => {
        // Node and the platform create and destroy timers of their own.
        if (type !== 'Timeout' || ofTheApp.getStore() === undefined || !isCalledFromCore()) return;
        created += 1;
        live.add(id);
      },
      destroy: (id) => void live.delete(id),
    }).enable();

    /** First requests, replays and rejections, on every connection concurrently. */
    const load = (requests: number) =>
      Promise.all(
        connections.map(async (_, connection) => {
          for (let sent = 0; sent < requests / CONNECTIONS; sent += 4) {
            const key = newKey();
            await expectStatus(post('/payments', key, undefined, connection), 201);
            await expectStatus(post('/payments', key, undefined, connection), 201, true);
            await expectStatus(post('/payments', key, '{"amount":2}', connection), 422);
            await expectStatus(post('/declined', key, undefined, connection), 503);
          }
        }),
      );
    const listeners = async () => {
      // Listeners that go in the next iterations of the event loop are not growth.
      await new Promise(setImmediate);
      const emitters = { process, server: app.getHttpServer(), client, stream: client.stream };
      return {
        ...Object.fromEntries(
          Object.entries(emitters).map(([name, emitter]) => [name, listenersOf(emitter)]),
        ),
        sockets: sockets.map(listenersOf),
      };
    };

    await load(REQUESTS / 10);
    const before = await listeners();
    await load(REQUESTS);
    expect(await listeners()).toEqual(before);
    expect(sockets).toHaveLength(CONNECTIONS);
    timers.disable();
    // Attempts share timers; none has its own.
    expect(created).toBeLessThan(REQUESTS / 100);
    expect(live.size).toBeLessThanOrEqual(2);
  });

  describe.each([
    ['', false],
    [' of annotated records', { tags: { secret: 's'.repeat(32) } }],
  ] as const)('on a connection of its own, the store%s sends', (_, annotate) => {
    let own: Awaited<ReturnType<typeof start>>;
    let connection: KeepAliveConnection;
    const ask = (path: string, key: string, body?: string) => post(path, key, body, connection);

    beforeAll(async () => {
      own = await start(platform, redisStore({ url: redis.url, keyPrefix: 'own' }), annotate);
      connection = new KeepAliveConnection(own.port);
      const key = newKey();
      await ask('/large', key);
      await ask('/large', key);
    });

    afterAll(async () => {
      connection.close();
      await own.app.close();
    });

    it.each(COMMANDS)(
      '$first for a first POST $path, and $replay for its replay',
      async (expected) => {
        const { path, first, replay } = expected;
        const key = newKey();
        expect(await commands.during(() => expectStatus(ask(path, key), 201))).toEqual(first);
        expect(await commands.during(() => expectStatus(ask(path, key), 201, true))).toEqual(
          replay,
        );
        const mismatch = () => expectStatus(ask(path, key, '{"amount":2}'), 422);
        expect(await commands.during(mismatch)).toEqual(['evalsha']);
      },
    );
  });
});

describe('on a Cluster with a client of the application, the store sends', () => {
  const cluster = useServer(() => RedisCluster.start({ replicas: 0 }));
  let client: Cluster;
  let app: INestApplication;
  let connection: KeepAliveConnection;
  const monitors: SentCommands[] = [];
  const post = (path: string, key: string, amount = 1) => {
    const lines = [
      ['Idempotency-Key', key],
      ['Content-Type', 'application/json'],
    ] as const;
    const body = Buffer.from(JSON.stringify({ amount }));
    return connection.exchange({ method: 'POST', path, lines, body });
  };
  /** Those of one record, which one server has. */
  const sentDuring = async (work: () => Promise<unknown>) => {
    const sent = monitors.reduce<() => Promise<string[]>>(
      (inner, monitor) => async () => {
        let others: string[] = [];
        const own = await monitor.during(async () => (others = await inner()));
        return [...others, ...own];
      },
      async () => {
        await work();
        return [];
      },
    );
    return (await sent()).filter((command) => SENT.has(command));
  };

  beforeAll(async () => {
    client = new Cluster(cluster.addresses);
    let port: number;
    ({ app, port } = await start('express', redisStore({ client })));
    connection = new KeepAliveConnection(port);
    for (const node of cluster.nodes) monitors.push(await SentCommands.to(node));
    // The first call of each script on each server also sends its text.
    for (let i = 0; i < 30; i += 1) {
      const key = newKey();
      for (let copy = 0; copy < 2; copy += 1) await post(i % 2 === 0 ? '/large' : '/payments', key);
    }
  }, START_HOOK_MS);

  afterAll(async () => {
    for (const monitor of monitors) monitor.stop();
    connection.close();
    await app.close();
    client.disconnect();
  });

  it.each(COMMANDS)(
    '$first for a first POST $path, and $replay for its replay',
    async (expected) => {
      const { path, first, replay } = expected;
      const key = newKey();
      const statusOf = async (amount?: number) => (await post(path, key, amount)).status;
      expect(await sentDuring(() => statusOf())).toEqual(first);
      expect(await sentDuring(() => statusOf())).toEqual(replay);
      expect(await sentDuring(() => statusOf(2))).toEqual(['evalsha']);
    },
  );
});

/** Those that a store may send for a request: servers of a cluster, and its client, talk besides. */
const SENT = new Set(['evalsha', 'eval', 'set', 'get']);

function isCalledFromCore(): boolean {
  const ofJest: unknown = Reflect.get(Error, 'prepareStackTrace');
  // Only the files: Jest's formatting of stacks looks up each line in its source map.
  Error.prepareStackTrace = (_, sites) => sites.map((site) => site.getFileName());
  const files = new Error().stack as unknown as (string | null)[];
  Reflect.set(Error, 'prepareStackTrace', ofJest);
  return files.some((file) => file?.includes('/lib/core/'));
}

/** The number of listeners per event. */
function listenersOf(emitter: EventEmitter): Record<string, number> {
  const names = emitter.eventNames().map((name) => [String(name), emitter.listenerCount(name)]);
  return Object.fromEntries(names.sort()) as Record<string, number>;
}
