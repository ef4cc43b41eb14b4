import { createSecretKey, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { Body, Controller, type ExecutionContext, HttpException, Post, Res } from '@nestjs/common';
import {
  IdempotencyEvents,
  IdempotencyService,
  Idempotent,
  staticKeys,
  type IdempotencyModuleOptions,
  type IdempotencyStore,
} from 'nestjs-idempotency';
import { openTelemetry } from 'nestjs-idempotency/opentelemetry';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import { prometheus } from 'nestjs-idempotency/prometheus';
import { redisStore } from 'nestjs-idempotency/redis';
import { recordKey } from 'nestjs-idempotency/store';
import { Registry } from 'prom-client';
import type { Reply } from '../../support/http/reply.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { Digests } from '../../support/internals/core.js';
import { LoggedLines } from '../../support/nest/logged-lines.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { startPostgres } from '../../support/postgres/postgres-server.js';
import { startRedis } from '../../support/redis/redis-server.js';
import { useRedisClient } from '../../support/redis/use-redis.js';
import { useServer } from '../../support/servers/use-server.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import { exported, TestSdk, traceRequests } from '../../support/telemetry/test-sdk.js';
import { until } from '../../support/waiting/until.js';
import { filesIn, searched, type Places } from './support/search.js';

const SERVICE = 'secrecy';
const OPERATION = 'things.create';
const SECRET = randomBytes(32);
const SECRETS = staticKeys({ current: 'one', keys: { one: SECRET } });
const DIGEST_SECRET = randomBytes(32);
/** @param id - of the key that encrypts: of several processes, which have the digest key in common. */
const namedBy = (id: string, key: Uint8Array) => ({
  secrets: staticKeys({
    current: id,
    keys: { [id]: key, names: DIGEST_SECRET },
    digestKeys: ['names'],
  }),
  protectDigests: true,
});

const newMarks = () => {
  const mark = (name: string) => `${name}${randomBytes(12).toString('hex')}`;
  return {
    key: mark('key'),
    caller: mark('caller'),
    request: mark('request'),
    response: mark('response'),
    header: mark('header'),
  };
};
/** Of what is sent and received now. */
let marks = newMarks();

const CALLER = {
  canActivate: (context: ExecutionContext) => {
    context.switchToHttp().getRequest<{ user?: object }>().user = { id: marks.caller };
    return true;
  },
};

const answer = (reply: Pick<Reply, 'header'>) => {
  reply.header('X-Receipt', marks.header);
  return { receipt: marks.response };
};

function newController(isTransactional: boolean) {
  @Controller()
  class Things {
    constructor(private readonly calls: IdempotencyService) {}

    @Post('things')
    @Idempotent({ operation: OPERATION })
    create(@Res({ passthrough: true }) reply: Reply) {
      return answer(reply);
    }

    @Post('refused')
    @Idempotent()
    refuse(@Res({ passthrough: true }) reply: Reply) {
      throw new HttpException(answer(reply), 422);
    }

    @Post('transactional')
    @Idempotent({ transaction: isTransactional })
    transactional(@Res({ passthrough: true }) reply: Reply) {
      return answer(reply);
    }

    @Post('recoverable')
    @Idempotent({ lease: { onTakeover: () => 'run' } })
    recoverable(@Res({ passthrough: true }) reply: Reply) {
      return answer(reply);
    }

    @Post('calls')
    call(@Body() payload: object) {
      const call = { operation: 'call', key: marks.key, scope: marks.caller, payload };
      return this.calls.run(call, () => ({ receipt: marks.response }));
    }
  }
  return Things;
}

type Options = Pick<IdempotencyModuleOptions, 'secrets' | 'protectDigests' | 'unitOfWork'>;

/** What an application leaves behind besides its store. */
class Traces {
  readonly #sdk = TestSdk.start();
  readonly #log = new LoggedLines();
  readonly #events: unknown[] = [];
  readonly #registries: Registry[] = [];
  readonly #apps: TestApp[] = [];

  async start(realStore: IdempotencyStore, options: Options) {
    const store = new FaultyStore(realStore);
    const registry = new Registry();
    const app = await startApp({
      platform: 'express',
      controllers: [newController(options.unitOfWork !== undefined)],
      store,
      guard: CALLER,
      options: {
        ...options,
        service: SERVICE,
        telemetry: [openTelemetry({ spans: 'always' }), prometheus({ registry })],
      },
      configure: (nest) => {
        nest.useLogger(this.#log);
        traceRequests(nest);
      },
    });
    this.#apps.push(app);
    this.#registries.push(registry);
    app.nest
      .get(IdempotencyEvents, { strict: false })
      .subscribe((event) => void this.#events.push(event));
    const send = async (path: string, content: string = marks.request, key = marks.key) => {
      const response = await fetch(`http://127.0.0.1:${app.port}/${path}`, {
        method: 'POST',
        headers: { 'idempotency-key': key, 'content-type': 'application/json' },
        body: JSON.stringify({ content }),
      });
      const text = await response.text();
      return { status: response.status, header: response.headers.get('x-receipt'), text };
    };
    return { store, send };
  }

  /** Of all applications that were started, which it stops. */
  async collect(): Promise<Places> {
    const metrics = await Promise.all(this.#registries.map((registry) => registry.metrics()));
    for (const app of this.#apps) await app.close();
    const spans = this.#sdk.spans.map(exported);
    await this.#sdk.stop();
    return {
      log: inspect(this.#log.lines, EVERYTHING),
      events: inspect(this.#events, EVERYTHING),
      spans: spans.join('\n'),
      metrics: metrics.join('\n'),
    };
  }
}

/** Everything that applications do with an outcome: the second one has not the key that encrypts. */
async function exchange(
  traces: Traces,
  newStore: () => IdempotencyStore,
  options: Options,
): Promise<void> {
  const { secrets, protectDigests, ...others } = options;
  const { store, send } = await traces.start(newStore(), options);
  const text = JSON.stringify({ receipt: marks.response });
  for (const [path, status, header] of [
    ['things', 201, marks.header],
    ['refused', 422, marks.header],
    ['transactional', 201, marks.header],
    ['calls', 201, null],
    // Its record has the key and the caller: in clear without secrets, which is no surprise.
    ...(secrets === undefined ? [] : ([['recoverable', 201, marks.header]] as const)),
  ] as const) {
    expect(await send(path)).toEqual({ status, header, text });
    expect(await send(path)).toEqual({ status, header, text });
  }
  expect(await send('things', `other ${marks.request}`)).toMatchObject({ status: 422 });
  expect(await send('things', marks.request, `${marks.key}""`)).toMatchObject({ status: 400 });
  store.next('begin', unavailable);
  expect(await send('things')).toMatchObject({ status: 503 });

  const late = await traces.start(newStore(), {
    ...others,
    ...(protectDigests === true && namedBy('other', randomBytes(32))),
  });
  expect(await late.send('things')).toMatchObject({ status: secrets === undefined ? 201 : 503 });
}

async function tracesOf(newStore: () => IdempotencyStore, options: Options): Promise<Places> {
  const traces = new Traces();
  let left: Places;
  try {
    await exchange(traces, newStore, options);
  } finally {
    left = await traces.collect();
  }
  return left;
}

const EVERYTHING = { depth: null, maxArrayLength: null, maxStringLength: null } as const;

const redis = useServer(() =>
  startRedis({
    args: [
      ...['--appendonly', 'yes', '--rdbcompression', 'no', '--loglevel', 'debug'],
      ...['--slowlog-log-slower-than', '0', '--slowlog-max-len', '10000'],
    ],
  }),
);
const postgres = useServer(() => startPostgres({ settings: { log_statement: 'all' } }));
const client = useRedisClient(redis);
/** What MONITOR has shown. */
const seen: string[] = [];
useServer(
  async () => {
    const monitor = await client.monitor();
    return monitor.on('monitor', (_time: string, args: string[]) => void seen.push(args.join(' ')));
  },
  (monitor) => monitor.disconnect(),
);
let url: string;
const pool = useServer(
  async () => {
    url = await postgres.newDatabase();
    await migrate({ url });
    return openPostgresPool(url);
  },
  (it) => it.end(),
);

/** @returns also what the server's files, MONITOR and slow log have. */
async function onRedis(options: Options): Promise<Places> {
  const left = await tracesOf(() => redisStore({ url: redis.url }), options);
  const end = `the end ${seen.length}`;
  await client.echo(end);
  await until(() => seen.includes(`echo ${end}`));
  await client.save();
  return {
    ...left,
    MONITOR: seen.join('\n'),
    SLOWLOG: JSON.stringify(await client.call('SLOWLOG', 'GET', '-1')),
    RDB: readFileSync(join(redis.dir, 'dump.rdb')),
    AOF: filesIn(join(redis.dir, 'appendonlydir')),
  };
}

/** @returns also what the server's files and its log of statements have. */
async function onPostgres(options: Options): Promise<Places> {
  const newStore = () => postgresStore({ url, deleteExpired: false });
  const left = await tracesOf(newStore, { ...options, unitOfWork: pgUnitOfWork(pool) });
  const data = join(postgres.dir, 'data');
  // Before the checkpoint, which may remove it.
  const wal = filesIn(join(data, 'pg_wal'));
  await pool.query('CHECKPOINT');
  return {
    ...left,
    'the log of statements': postgres.log.join(''),
    WAL: wal,
    tables: filesIn(join(data, 'base')),
  };
}

const STORES = [
  ['Redis', onRedis, ['MONITOR', 'SLOWLOG', 'RDB', 'AOF']],
  ['PostgreSQL', onPostgres, ['the log of statements', 'WAL', 'tables']],
] as const;

const digestKeys = [createSecretKey(DIGEST_SECRET)];
const DIGESTS = new Digests(SERVICE, { keys: () => digestKeys, scopeTagParts: Infinity });

const APPLICATION = { events: ['record'], spans: ['record'], metrics: [] };

// The record's key, a digest, shows that a place has what belongs to the request, and that the search finds it.
describe.each(STORES)('On %s,', (_, useOn, inStore) => {
  const ways: readonly (readonly [string, Options, object, readonly string[]])[] = [
    [
      'with secrets, no response is either',
      { secrets: SECRETS },
      { ...APPLICATION, log: ['record'] },
      ['record'],
    ],
    [
      'with protected digests, no guess at a record can be confirmed either',
      namedBy('one', SECRET),
      { events: ['named'], spans: ['named'], metrics: [], log: ['named'] },
      ['named'],
    ],
    [
      'without secrets, responses are in the store alone',
      {},
      { ...APPLICATION, log: [] },
      ['record', 'response', 'header'],
    ],
  ];
  it.each(ways)(
    'keys, callers and contents are in no file, log, event, metric or span: %s',
    async (_way, options, inApplication, expected) => {
      marks = newMarks();
      const scope = [marks.caller];
      const identity = { scope, operation: OPERATION, key: marks.key };
      const record = recordKey({ service: SERVICE, ...identity });
      const [{ recordKey: named }] = DIGESTS.names({ ...identity, caller: scope });
      const places = await useOn(options);
      expect(places.metrics).toContain('idempotency_requests_total');
      expect(places.log).toContain('store_unavailable');
      const wanted = {
        record: [record, Buffer.from(record, 'base64url')],
        named: [named, Buffer.from(named, 'base64url')],
        secret: [SECRET, DIGEST_SECRET],
        ...marks,
      };
      expect(searched(places, wanted)).toEqual({
        ...inApplication,
        ...Object.fromEntries(inStore.map((place) => [place, expected])),
      });
    },
  );
});
