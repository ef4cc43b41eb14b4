import { randomUUID } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { OpenAPIObject } from '@nestjs/swagger';
import type { RecordSheet } from 'nestjs-idempotency';
import type { Installation } from '../../support/packages/install-packages.js';
import { packPackage, type PackedPackage } from '../../support/packages/packed-package.js';
import { startRedis, type RedisServer } from '../../support/redis/redis-server.js';
import { ConsumerApp, type RunningApp } from './consumer-app.js';

/** An ES module that depends on the package, too. */
const ONE_COPY_LIBRARY = `
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import * as root from 'nestjs-idempotency';
export { root };
export { memoryStore } from 'nestjs-idempotency/memory';

export async function runOnce(theirs, store) {
  const module = theirs.IdempotencyModule.forRoot({ store });
  const app = await NestFactory.createApplicationContext(module, { logger: ['error'] });
  const call = { operation: 'charge', key: 'one-purchase', scope: 'tester' };
  let isSame = false;
  const ownKey = await app.get(root.IdempotencyService).run(call, () => {
    const own = root.currentIdempotencyContext();
    isSame = own !== undefined && own === theirs.currentIdempotencyContext();
    return own?.key;
  });
  await app.close();
  return { ownKey, isSame };
}
`;

export const INSTALL_TIMEOUT_MS = 120_000;

/** What loads without a library of its own: the entries, and a function of each. */
export const ENTRIES = [
  ['nestjs-idempotency', 'IdempotencyModule'],
  ['nestjs-idempotency/store', 'recordKey'],
  ['nestjs-idempotency/transactions', 'PostgresUnitOfWork'],
  ['nestjs-idempotency/message', 'payloadKey'],
  ['nestjs-idempotency/memory', 'memoryStore'],
  ['nestjs-idempotency/sqlite', 'sqliteStore'],
  ['nestjs-idempotency/redis', 'redisStore'],
  ['nestjs-idempotency/postgres', 'postgresStore'],
  ['nestjs-idempotency/blobs/file', 'fileBlobs'],
  ['nestjs-idempotency/blobs/s3', 's3Blobs'],
  ['nestjs-idempotency/pg', 'pgUnitOfWork'],
  ['nestjs-idempotency/drizzle', 'drizzleUnitOfWork'],
  ['nestjs-idempotency/knex', 'knexUnitOfWork'],
  ['nestjs-idempotency/typeorm', 'typeOrmUnitOfWork'],
  ['nestjs-idempotency/prisma', 'prismaUnitOfWork'],
  ['nestjs-idempotency/swagger', 'documentIdempotency'],
  ['nestjs-idempotency/console', 'IdempotencyConsoleModule'],
  ['nestjs-idempotency/testing', 'createIdempotencyContext'],
  ['nestjs-idempotency/testing/store', 'describeStoreConformance'],
] as const;

/** `npm run build` makes declarations. */
const BUILD_TIMEOUT_MS = 300_000;

/** An application that has only these packages besides the tarball. */
export interface Consumer extends Installation {
  readonly name: string;
}

/** The tarball, in a folder that lasts as long as the test file. */
export interface Tarball {
  readonly folder: string;
  readonly packed: PackedPackage;
}

/** The arguments are those of {@link packPackage}. */
export function useTarball(needs?: Parameters<typeof packPackage>[1], workspace?: string): Tarball {
  const folder = mkdtempSync(join(tmpdir(), 'idempotency-package-'));
  let packed: PackedPackage;
  beforeAll(async () => {
    packed = await packPackage(folder, needs, workspace);
  }, BUILD_TIMEOUT_MS);
  afterAll(() => rm(folder, { recursive: true, force: true }), BUILD_TIMEOUT_MS);
  return {
    folder,
    get packed() {
      return packed;
    },
  };
}

export function describeConsumers(tarball: Tarball, consumers: readonly Consumer[]): void {
  describe.each(consumers)('$name', (consumer) => {
    describeConsumer(tarball, consumer);
  });
}

function describeConsumer(tarball: Tarball, consumer: Consumer): void {
  let app: ConsumerApp;
  const { type, dependencies } = consumer;
  // require() of an ES module, as every CommonJS application does it.
  const load = (entry: string) =>
    type === 'commonjs' ? `Promise.resolve(require('${entry}'))` : `import('${entry}')`;
  const hasDriver = 'ioredis' in dependencies;
  const platforms = ['express', 'fastify'].filter(
    (platform) => `@nestjs/platform-${platform}` in dependencies,
  );

  beforeAll(async () => {
    app = await ConsumerApp.install({
      root: join(tarball.folder, randomUUID()),
      tarball: tarball.packed.tarball,
      type,
      dependencies: {
        ...dependencies,
        '@types/express': '5.0.6',
        '@types/node': '20.19.43',
        'reflect-metadata': '0.2.2',
        rxjs: '7.8.2',
      },
    });
    await app.compile();
  }, INSTALL_TIMEOUT_MS);

  it.each(ENTRIES)('loads %s', async (entry, name) => {
    const script = `${load(entry)}.then((entry) => console.log(typeof entry.${name}))`;
    expect(await app.print(script)).toBe('function');
  });

  it.each([
    ['bullmq', 'bullmq', 'entry.delayJob.name', 'delayJob'],
    ['prometheus', 'prom-client', 'typeof entry.prometheus().start', 'function'],
    ['messagepack', 'msgpackr', 'entry.messagePackCodec().name', 'messagepack'],
    ['opentelemetry', '@opentelemetry/api', 'typeof entry.openTelemetry().start', 'function'],
    [
      'terminus',
      '@nestjs/terminus',
      'entry.IdempotencyHealthIndicator.name',
      'IdempotencyHealthIndicator',
    ],
  ])(
    'loads nestjs-idempotency/%s with %s, and in vain without it',
    async (entry, library, printing, text) => {
      const loaded = load(`nestjs-idempotency/${entry}`);
      const printed = app.print(`${loaded}.then((entry) => console.log(${printing}))`);
      if (library in dependencies) expect(await printed).toBe(text);
      else await expect(printed).rejects.toThrow(`Cannot find package '${library}'`);
    },
  );

  it('has one copy, however the application and a library load it', async () => {
    await expectOneCopy(app);
  });

  it('prints the migrations without a driver', async () => {
    expect(await app.bin('nestjs-idempotency', 'sql')).toContain(
      'CREATE TABLE "public"."idempotency_records"',
    );
  });

  it.each(
    platforms.flatMap((PLATFORM) => [
      { PLATFORM, REQUEST_PATH: 'fast', streams: 0 },
      { PLATFORM, REQUEST_PATH: 'streams', streams: expect.not.closeTo(0) },
    ]),
  )(
    'charges once for one key, in memory, on $PLATFORM, path: $REQUEST_PATH',
    async ({ streams, ...environment }) => {
      const running = await app.start(environment);
      try {
        const summary = await expectOneChargeForTwoRequests(running);
        expect(summary).toEqual({ charges: 1, store: 'MemoryIdempotencyStore', streams });
      } finally {
        await running.stop();
      }
    },
  );

  it.each(platforms)(
    'rejects in a problem document, without a warning, on %s',
    async (PLATFORM) => {
      const running = await app.start({ PLATFORM });
      const rejected = await fetch(`${running.url}/charges`, { method: 'POST' });
      const log = await running.stop();
      expect([rejected.status, rejected.headers.get('content-type')]).toEqual([
        400,
        'application/problem+json; charset=utf-8',
      ]);
      expect(await rejected.json()).toMatchObject({ code: 'idempotency_key_missing' });
      expect(log).not.toMatch(/WARN|ERROR/);
    },
  );

  it.each(platforms)(
    'names the remedy in a response if raw bodies are compared and not kept, on %s',
    async (PLATFORM) => {
      const running = await app.start({ PLATFORM, FINGERPRINT: 'bytes' });
      const { status } = await charge(running);
      expect([status, await running.stop()]).toEqual([
        500,
        expect.stringContaining('{ rawBody: true }'),
      ]);
    },
  );

  it.each(platforms)('is ready, in memory, on %s', async (PLATFORM) => {
    const running = await app.start({ PLATFORM });
    try {
      expect(await readiness(running)).toMatchObject([
        200,
        { status: 'ok', info: { store: { status: 'up', store: 'memory' } } },
      ]);
    } finally {
      await running.stop();
    }
  });

  it.each(platforms)('is scraped on %s', async (PLATFORM) => {
    const running = await app.start({ PLATFORM });
    try {
      await expectOneChargeForTwoRequests(running);
      const response = await fetch(`${running.url}/metrics`);
      expect(response.headers.get('content-type')).toContain('version=0.0.4');
      const counted = /^idempotency_requests_total\{.*result="(executed|replayed)"\} 1$/gm;
      expect((await response.text()).match(counted)).toHaveLength(2);
    } finally {
      await running.stop();
    }
  });

  it('prints one receipt for two calls of a service', async () => {
    const running = await app.start();
    try {
      const receipt = async (charge: string) =>
        (await fetch(`${running.url}/receipts/${charge}`)).json();
      expect(await receipt('one')).toEqual({ charge: 'one', printed: 1 });
      expect(await receipt('one')).toEqual({ charge: 'one', printed: 1 });
      expect(await receipt('two')).toEqual({ charge: 'two', printed: 2 });
    } finally {
      await running.stop();
    }
  });

  it('documents what is idempotent', async () => {
    const running = await app.start();
    try {
      const document = (await (await fetch(`${running.url}/docs-json`)).json()) as OpenAPIObject;
      const { post, get } = document.paths['/charges']!;
      expect(Object.keys(post!.responses)).toEqual(['201', '400', '409', '422', '503']);
      expect(post!.parameters).toMatchObject([{ name: 'Idempotency-Key', in: 'header' }]);
      expect(get).toMatchObject({ parameters: [], responses: { 200: {} } });
    } finally {
      await running.stop();
    }
  });

  if (hasDriver) {
    it('charges once for one key, on Redis', async () => {
      const redis: RedisServer = await startRedis();
      try {
        const running = await app.start({ REDIS_URL: redis.url });
        try {
          const summary = await expectOneChargeForTwoRequests(running);
          expect(summary).toMatchObject({ charges: 1, store: 'RedisIdempotencyStore' });
        } finally {
          await running.stop();
        }
      } finally {
        await redis.stop();
      }
    });
    it('diagnoses that its Redis is not durable, by the program of the package', async () => {
      const redis: RedisServer = await startRedis();
      try {
        const diagnosis: unknown = await app
          .bin('nestjs-idempotency', 'doctor', '--redis', redis.url)
          .catch((error: unknown) => error);
        expect(diagnosis).toMatchObject({
          code: 1,
          stdout: expect.stringMatching(/^warning +persistence[^]*^ok +steps/m),
          stderr: '',
        });
      } finally {
        await redis.stop();
      }
    });
    it('finds a record by the key in the input, acts on it, and says by its exit code how that ended', async () => {
      const redis: RedisServer = await startRedis();
      const environment = { IDEMPOTENCY_STORE_URL: redis.url };
      const command = (name: string, args: readonly string[], input?: string) =>
        app.command([name, ...args], environment, input);
      const found = [
        ...['--service', 'consumer', '--scope', 'tester'],
        ...['--operation', 'ChargesController.charge', '--key', '-'],
      ];
      try {
        const running = await app.start({ REDIS_URL: redis.url });
        await charge(running);
        await running.stop();
        const seen = await command('find', [...found, '--json'], 'one-purchase\n');
        expect(seen).toMatchObject({ code: 0, stderr: '' });
        const { recordKey, expected } = JSON.parse(seen.stdout) as RecordSheet;
        expect(expected.state).toBe('completed');
        const ref = [`--record=${recordKey}`, '--expect', `completed:${String(expected.fence)}`];
        const deleting = [...ref, '--actor', 'mia', '--reason', 'a test', '--even-if-running'];
        expect(await command('delete', ref)).toMatchObject({ code: 2, stdout: '' });
        const done = await command('delete', deleting);
        expect(done).toMatchObject({ code: 0, stdout: 'delete: ok. Done.\n' });
        expect(done.stderr).toContain('"phase":"result"');
        expect(await command('delete', deleting)).toMatchObject({ code: 1 });
        expect(await command('find', found, 'one-purchase\n')).toMatchObject({ code: 1 });
        await redis.stop();
        const away = await command('find', found, 'one-purchase\n');
        expect(away).toMatchObject({ code: 3, stdout: '' });
        const shown = [seen, done, away].map(({ stdout, stderr }) => stdout + stderr);
        expect(shown.join('')).not.toContain('one-purchase');
      } finally {
        await redis.stop();
      }
    });
    it('is ready until its Redis is gone', async () => {
      const redis: RedisServer = await startRedis();
      try {
        const running = await app.start({ REDIS_URL: redis.url });
        try {
          expect(await readiness(running)).toMatchObject([200, { status: 'ok' }]);
          await redis.stop();
          expect(await readiness(running)).toMatchObject([
            503,
            { error: { store: { errorType: 'idempotency_store_unavailable' } } },
          ]);
        } finally {
          await running.stop();
        }
      } finally {
        await redis.stop();
      }
    });
  } else {
    it('names the missing ioredis when it needs a connection to Redis', async () => {
      const starting = app.start({ REDIS_URL: 'redis://127.0.0.1:1' });
      await expect(starting).rejects.toThrow('npm install ioredis');
    });
    it('names the missing ioredis when the program of the package needs it', async () => {
      const diagnosis = app.bin('nestjs-idempotency', 'doctor', '--redis', 'redis://127.0.0.1:1');
      await expect(diagnosis).rejects.toMatchObject({
        code: 2,
        stderr: expect.stringContaining('npm install ioredis'),
      });
    });
  }
}

/** However the application and a library load the package. */
export async function expectOneCopy(app: ConsumerApp): Promise<void> {
  await app.addModule('charging-library', ONE_COPY_LIBRARY);
  const script = `(async () => {
    const require = process.getBuiltinModule('node:module').createRequire(process.cwd() + '/app.js');
    const required = (name) => require(name);
    const root = required('nestjs-idempotency');
    const { memoryStore } = required('nestjs-idempotency/memory');
    const library = await import('charging-library');
    const names = Object.keys(root);
    const imported = await import('nestjs-idempotency');
    const stores = [required('nestjs-idempotency/store'), await import('nestjs-idempotency/store')];
    console.log(JSON.stringify({
      differing: names.filter((name) => root[name] !== library.root[name] || root[name] !== imported[name]),
      names: names.length > 20,
      ports: stores.map(({ IdempotencyStore }) => IdempotencyStore === root.IdempotencyStore),
      stores: [library.memoryStore() instanceof root.IdempotencyStore, memoryStore() instanceof library.root.IdempotencyStore],
      context: await library.runOnce(root, memoryStore()),
    }));
  })()`;
  expect(JSON.parse(await app.print(script))).toEqual({
    differing: [],
    names: true,
    ports: [true, true],
    stores: [true, true],
    context: { ownKey: 'one-purchase', isSame: true },
  });
}

async function readiness(app: RunningApp): Promise<unknown[]> {
  const response = await fetch(`${app.url}/ready`);
  return [response.status, await response.json()];
}

function charge(app: RunningApp): Promise<Response> {
  return fetch(`${app.url}/charges`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': '"one-purchase"' },
    body: JSON.stringify({ amount: 1250 }),
  });
}

/** @returns the application's own summary. */
async function expectOneChargeForTwoRequests(app: RunningApp): Promise<unknown> {
  const first = await charge(app);
  const firstBody = await first.text();
  const second = await charge(app);
  expect([first.status, firstBody]).toEqual([201, '{"charge":1,"amount":1250}']);
  expect([second.status, await second.text()]).toEqual([201, firstBody]);
  expect(first.headers.get('idempotent-replayed')).toBeNull();
  expect(second.headers.get('idempotent-replayed')).toBe('true');
  return (await fetch(`${app.url}/charges`)).json();
}
