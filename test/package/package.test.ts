import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { REJECTIONS } from '../support/internals/core.js';
import { problems } from '../support/internals/http.js';
import { nestVersions } from '../support/packages/versions.js';
import { projectRoot } from '../support/project-root.js';
import { ConsumerApp } from './support/consumer-app.js';
import {
  ENTRIES,
  expectOneCopy,
  INSTALL_TIMEOUT_MS,
  useTarball,
} from './support/describe-consumers.js';
import { filesIn } from './support/files-in.js';

interface Manifest {
  readonly bin: Readonly<Record<string, string>>;
  readonly exports: Readonly<
    Record<
      string,
      | string
      | {
          readonly import: { readonly default: string };
          readonly require: { readonly default: string; readonly 'module-sync': string };
        }
    >
  >;
}

/** What users need least, and what the scripts in the tarball say themselves. */
const ON_THE_SITE_ALONE =
  /^docs\/(measurements\/|explanation\/(decisions|evidence|one-request)\.md|reference\/(api\/|lua-and-sql\.md|tried-with\.md))/;

const tarball = useTarball();

describe('the tarball', () => {
  it('holds what was built from lib, the scripts, the SQL, the documents, and nothing else', () => {
    const { bin, exports } = JSON.parse(
      readFileSync(join(projectRoot, 'package.json'), 'utf8'),
    ) as Manifest;
    const entries = Object.values(exports)
      .filter((entry) => typeof entry === 'object')
      .flatMap(({ import: asModule, require: asCommonJs }) => [
        asModule.default,
        asCommonJs.default,
        asCommonJs['module-sync'],
      ])
      .concat(Object.values(bin))
      .map((file) => file.replace(/^\.\//, ''));
    const isOther = (file: string) =>
      /^dist\/(esm|cjs)\/(shared\/[a-z\d.-]+\.js|.*\.d\.ts)$/.test(file);
    const built = [
      ...entries,
      ...['dist/cjs/package.json', 'dist/require/package.json'],
      ...['dist/require/peers.js', 'dist/esm/core/util/peers.js'],
    ];
    const papers = [
      ...['CHANGELOG.md', 'LICENSE', 'README.md', 'SECURITY.md'],
      ...['package.json'],
      ...['idempotency.dashboard.json', 'idempotency.rules.yml'].map(
        (name) => `docs/operations/${name}`,
      ),
      ...filesIn('docs', '.md').filter((name) => !ON_THE_SITE_ALONE.test(name)),
    ];
    const shipped = [
      ...filesIn('lua', '.lua'),
      ...filesIn('schematics', ''),
      ...filesIn('sql', '.sql'),
    ];
    const { files } = tarball.packed;
    expect(files.filter((file) => !isOther(file))).toEqual(
      [...built, ...shipped, ...papers].sort(),
    );
  });
});

describe('a project that has installed it', () => {
  let app: ConsumerApp;
  beforeAll(async () => {
    const {
      '@nestjs/common': common,
      '@nestjs/core': core,
      '@nestjs/swagger': swagger,
    } = nestVersions['11.2.10'];
    app = await ConsumerApp.install({
      root: join(tarball.folder, 'project'),
      tarball: tarball.packed.tarball,
      type: 'commonjs',
      dependencies: {
        '@nestjs/common': common!,
        '@nestjs/core': core!,
        '@nestjs/swagger': swagger!,
        'reflect-metadata': '0.2.2',
        rxjs: '7.8.2',
      },
    });
  }, INSTALL_TIMEOUT_MS);

  it.each(['require', 'import'])('loads each entry by %s()', async (load) => {
    const script = `(async () => {
      for (const [entry, name] of ${JSON.stringify(ENTRIES)})
        console.log(entry, typeof (await ${load}(entry))[name]);
    })()`;
    const loaded = ENTRIES.map(([entry]) => `${entry} function`);
    expect(await app.print(script)).toBe(loaded.join('\n'));
  });

  it('loads a peer by require(), which instrumentations of a CommonJS application replace', async () => {
    const script = `
      const { prototype } = require('node:module');
      const { require: original } = prototype;
      const asked = [];
      prototype.require = function (name) {
        asked.push(name);
        return original.call(this, name);
      };
      const { redisStore } = require('nestjs-idempotency/redis');
      const { postgresStore } = require('nestjs-idempotency/postgres');
      const url = '://127.0.0.1:1/0';
      const stores = [redisStore({ url: 'redis' + url }), postgresStore({ url: 'postgres' + url })];
      Promise.allSettled(stores.map((store) => store.open())).then((opened) =>
        console.log(
          ['ioredis', 'pg'].filter((name) => asked.includes(name)).join(),
          opened.map(({ reason }) => /npm install \\w+/.exec(reason?.message)?.[0]).join(),
        ),
      );`;
    expect(await app.print(script)).toBe('ioredis,pg npm install ioredis,npm install pg');
  });

  it('has one copy, however the application and a library load it', async () => {
    await expectOneCopy(app);
  });

  describe('has the documentation', () => {
    const docs = (...words: string[]) =>
      app.bin('nestjs-idempotency', 'docs', ...words).then(
        (stdout) => ({ code: 0, stdout }),
        (error: unknown) => {
          const { code, stdout, stderr } = error as Record<'code' | 'stdout' | 'stderr', unknown>;
          return { code, stdout: `${String(stdout)}${String(stderr)}` };
        },
      );
    const page = (name: string) => readFileSync(join(projectRoot, 'docs', name), 'utf8');

    it('lists its pages', async () => {
      const { code, stdout } = await docs();
      const listed = stdout.trimEnd().split('\n');
      expect(listed.pop()).toMatch(/^More, .* https:/);
      expect([code, listed.length]).toEqual([
        0,
        tarball.packed.files.filter((file) => /^docs\/.*\.md$/.test(file)).length,
      ]);
      expect(listed).toContainEqual(expect.stringMatching(/^guides\/payments +How do I charge/));
    });

    it.each([
      ['guides/payments', 'guides/payments.md'],
      ['docs/guides/payments.md', 'guides/payments.md'],
      ['webhooks', 'guides/webhooks.md'],
      ['reference/problems', 'reference/problems/README.md'],
    ])('prints the page %s', async (topic, file) => {
      expect(await docs(topic)).toEqual({ code: 0, stdout: page(file) });
    });

    it.each(Object.entries(REJECTIONS))('prints the page of %s', async (code, rejection) => {
      const file = `reference/problems/${rejection.page}/README.md`;
      expect(await docs(code)).toEqual({ code: 0, stdout: page(file) });
      // The address in problem documents: the same page.
      expect(`${problems.PROBLEM_TYPE_BASE}/${rejection.page}/README.md`).toMatch(
        new RegExp(`/docs/${file}$`),
      );
    });

    it('finds the pages that have a word, or all of several on one line', async () => {
      const one = await docs('onTakeover');
      expect(one).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/^guides\/payments {2}/m),
      });
      const all = await docs('onTakeover', 'TRANSACTION');
      expect(all.code).toBe(0);
      expect(all.stdout.length).toBeLessThan(one.stdout.length);
    });

    it.each([
      [['no-such-word-anywhere'], 1, 'No page has "no-such-word-anywhere".'],
      [
        ['--topic', 'payments'],
        2,
        'Unknown option "--topic" of docs. [idempotency_options_invalid]',
      ],
    ])('answers %j with %i', async (words, code, text) => {
      expect(await docs(...words)).toEqual({ code, stdout: expect.stringContaining(text) });
    });
  });

  it('prints the migrations without a driver', async () => {
    expect(await app.bin('nestjs-idempotency', 'sql')).toContain(
      'CREATE TABLE "public"."idempotency_records"',
    );
  });
});
