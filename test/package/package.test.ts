import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { OpenAPIObject } from '@nestjs/swagger';
import { packPackage, type PackedPackage } from '../support/packed-package.js';
import { projectRoot } from '../support/project-root.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { ConsumerApp, type RunningApp } from './consumer-app.js';

const INSTALL_TIMEOUT_MS = 120_000;

const scratch = mkdtempSync(join(tmpdir(), 'idempotency-package-'));
let packed: PackedPackage;

beforeAll(async () => {
  packed = await packPackage(scratch);
});
afterAll(() => rm(scratch, { recursive: true, force: true }));

function filesIn(folder: string, ending: string): string[] {
  const names = readdirSync(join(projectRoot, folder), { recursive: true, encoding: 'utf8' });
  return names.filter((name) => name.endsWith(ending)).map((name) => `${folder}/${name}`);
}

describe('the tarball', () => {
  it('holds what was built from lib, the scripts, the SQL, the papers, and nothing else', () => {
    const built = filesIn('lib', '.ts').flatMap((source) => {
      const stem = source.replace(/^lib/, 'dist').replace(/\.ts$/, '');
      return [`${stem}.js`, `${stem}.d.ts`];
    });
    const papers = ['CHANGELOG.md', 'LICENSE', 'README.md', 'SECURITY.md', 'package.json'];
    const shipped = [...filesIn('lua', '.lua'), ...filesIn('sql', '.sql')];
    expect(packed.files).toEqual([...built, ...shipped, ...papers].sort());
  });

  it('documents the same defaults in its declarations as in the sources, and nothing internal', async () => {
    await promisify(execFile)('tar', ['-xzf', packed.tarball, '-C', scratch]);
    const count = (text: string) => text.split('@defaultValue').length - 1;
    for (const source of filesIn('lib', '.ts')) {
      const declaration = source.replace(/^lib/, 'package/dist').replace(/\.ts$/, '.d.ts');
      const declared = readFileSync(join(scratch, declaration), 'utf8');
      const written = readFileSync(join(projectRoot, source), 'utf8');
      expect([source, count(declared)]).toEqual([source, count(written)]);
      expect(declared).not.toContain('@internal');
    }
  });
});

describe.each([
  {
    name: 'a CommonJS application on Nest 11, with ioredis 5',
    folder: 'nest-11',
    type: 'commonjs' as const,
    dependencies: {
      '@nestjs/common': '11.2.10',
      '@nestjs/core': '11.2.10',
      '@nestjs/platform-express': '11.2.10',
      '@nestjs/swagger': '11.0.0',
      bullmq: '5.81.5',
      graphql: '16.15.0',
      ioredis: '5.9.2',
      msgpackr: '2.1.3',
    },
    // require() of an ES module, as every CommonJS application does it.
    load: (entry: string) => `Promise.resolve(require('${entry}'))`,
    hasDriver: true,
    hasLibraries: true,
  },
  {
    name: 'an ESM application on Nest 12, without ioredis',
    folder: 'nest-12',
    type: 'module' as const,
    dependencies: {
      '@nestjs/common': '12.5.1',
      '@nestjs/core': '12.5.1',
      '@nestjs/platform-express': '12.5.1',
      '@nestjs/swagger': '12.0.2',
    },
    load: (entry: string) => `import('${entry}')`,
    hasDriver: false,
    hasLibraries: false,
  },
])('$name', ({ folder, type, dependencies, load, hasDriver, hasLibraries }) => {
  let app: ConsumerApp;

  beforeAll(async () => {
    app = await ConsumerApp.install({
      root: join(scratch, folder),
      tarball: packed.tarball,
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

  it.each([
    ['nestjs-idempotency', 'IdempotencyModule'],
    ['nestjs-idempotency/memory', 'memoryStore'],
    ['nestjs-idempotency/redis', 'redisStore'],
    ['nestjs-idempotency/postgres', 'postgresStore'],
    ['nestjs-idempotency/pg', 'pgUnitOfWork'],
    ['nestjs-idempotency/drizzle', 'drizzleUnitOfWork'],
    ['nestjs-idempotency/knex', 'knexUnitOfWork'],
    ['nestjs-idempotency/typeorm', 'typeOrmUnitOfWork'],
    ['nestjs-idempotency/prisma', 'prismaUnitOfWork'],
    ['nestjs-idempotency/swagger', 'documentIdempotency'],
    ['nestjs-idempotency/testing', 'describeStoreConformance'],
    ['nestjs-idempotency/client', 'idempotentFetch'],
  ])('loads %s', async (entry, name) => {
    const script = `${load(entry)}.then((entry) => console.log(typeof entry.${name}))`;
    expect(await app.print(script)).toBe('function');
  });

  it.each([
    ['graphql', 'graphql', 'String(entry.idempotentDirective)', '@idempotent'],
    ['bullmq', 'bullmq', 'entry.delayJob.name', 'delayJob'],
    ['messagepack', 'msgpackr', 'entry.messagePackCodec().name', 'messagepack'],
  ])(
    `loads nestjs-idempotency/%s ${hasLibraries ? 'with' : 'in vain without'} its library`,
    async (entry, library, printing, text) => {
      const loaded = load(`nestjs-idempotency/${entry}`);
      const printed = app.print(`${loaded}.then((entry) => console.log(${printing}))`);
      if (hasLibraries) expect(await printed).toBe(text);
      else await expect(printed).rejects.toThrow(`Cannot find package '${library}'`);
    },
  );

  it('prints the migrations without a driver', async () => {
    expect(await app.bin('nestjs-idempotency', 'migrations')).toContain(
      'CREATE TABLE "public"."idempotency_records"',
    );
  });

  it('charges once for one key, in memory', async () => {
    const running = await app.start();
    try {
      await expectOneChargeForTwoRequests(running, 'MemoryIdempotencyStore');
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
          await expectOneChargeForTwoRequests(running, 'RedisIdempotencyStore');
        } finally {
          await running.stop();
        }
      } finally {
        await redis.stop();
      }
    });
  } else {
    it('is told to install ioredis when it asks for a connection to Redis', async () => {
      const starting = app.start({ REDIS_URL: 'redis://127.0.0.1:1' });
      await expect(starting).rejects.toThrow('npm install ioredis');
    });
  }
});

async function expectOneChargeForTwoRequests(app: RunningApp, store: string): Promise<void> {
  const charge = () =>
    fetch(`${app.url}/charges`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': '"one-purchase"' },
      body: JSON.stringify({ amount: 1250 }),
    });
  const first = await charge();
  const firstBody = await first.text();
  const second = await charge();
  expect([first.status, firstBody]).toEqual([201, '{"charge":1,"amount":1250}']);
  expect([second.status, await second.text()]).toEqual([201, firstBody]);
  expect(first.headers.get('idempotent-replayed')).toBeNull();
  expect(second.headers.get('idempotent-replayed')).toBe('true');
  const summary = await fetch(`${app.url}/charges`);
  expect(await summary.json()).toEqual({ charges: 1, store });
}
