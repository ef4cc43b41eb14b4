import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { brokenArrows, lintFindings, plant, type Tree } from '../support/lint-planted-tree.js';
import { projectRoot } from '../support/project-root.js';

interface ForbiddenImport {
  readonly from: string;
  readonly imports: string;
  readonly reaches: string;
  readonly rule: string;
}

/** The folders of lib/transactions, and the package that each is for. */
const transactions = {
  pg: 'pg',
  typeorm: 'typeorm',
  prisma: '@prisma/client',
  kysely: 'kysely',
  drizzle: 'drizzle-orm',
  knex: 'knex',
};

/** What none of them may import: its neighbour, that one's package, a driver that is not its own, and above. */
const forbiddenTransactions: readonly ForbiddenImport[] = Object.keys(transactions).flatMap(
  (folder) => {
    const [neighbour, neighbours] = Object.entries(transactions).find(
      ([other]) => other !== folder && other !== 'pg',
    )!;
    const from = (name: string) => `lib/transactions/${folder}/${name}.ts`;
    const ownPackageOnly = `${folder}-transactions-need-their-library-only`;
    const ownFolderOnly = 'transactions-know-core-and-themselves';
    return [
      {
        from: from('neighbour'),
        imports: `../${neighbour}/index.js`,
        reaches: `lib/transactions/${neighbour}/index.ts`,
        rule: ownFolderOnly,
      },
      {
        from: from('store'),
        imports: '../../stores/postgres/index.js',
        reaches: 'lib/stores/postgres/index.ts',
        rule: ownFolderOnly,
      },
      {
        from: from('module'),
        imports: '../../nest/module.js',
        reaches: 'lib/nest/module.ts',
        rule: ownFolderOnly,
      },
      {
        from: from('injection'),
        imports: '@nestjs/common',
        reaches: 'node_modules/@nestjs/common/index.js',
        rule: ownFolderOnly,
      },
      {
        from: from('other-library'),
        imports: neighbours,
        reaches: `node_modules/${neighbours}/index.js`,
        rule: ownPackageOnly,
      },
      {
        from: from('other-driver'),
        imports: 'ioredis',
        reaches: 'node_modules/ioredis/index.js',
        rule: ownPackageOnly,
      },
    ];
  },
);

/** Each import that an arrow forbids, and the rule that has to name it. */
const forbidden: readonly ForbiddenImport[] = [
  ...forbiddenTransactions,
  ...['typeorm', 'prisma', 'kysely', 'knex'].map((folder) => ({
    from: `lib/transactions/${folder}/driver.ts`,
    imports: 'pg',
    reaches: 'node_modules/pg/index.js',
    rule: `${folder}-transactions-need-their-library-only`,
  })),
  {
    from: 'lib/core/transactions.ts',
    imports: '../transactions/pg/index.js',
    reaches: 'lib/transactions/pg/index.ts',
    rule: 'core-knows-core-only',
  },
  {
    from: 'lib/stores/postgres/transactions.ts',
    imports: '../../transactions/pg/index.js',
    reaches: 'lib/transactions/pg/index.ts',
    rule: 'store-knows-core-and-itself',
  },
  {
    from: 'lib/nest/transactions.ts',
    imports: '../transactions/pg/index.js',
    reaches: 'lib/transactions/pg/index.ts',
    rule: 'transactions-are-entries-of-their-own',
  },
  {
    from: 'lib/core/engine.ts',
    imports: '@nestjs/common',
    reaches: 'node_modules/@nestjs/common/index.js',
    rule: 'core-knows-core-only',
  },
  {
    from: 'lib/core/engine-two.ts',
    imports: '../stores/memory/index.js',
    reaches: 'lib/stores/memory/index.ts',
    rule: 'core-knows-core-only',
  },
  {
    from: 'lib/core/engine-three.ts',
    imports: '../nest/module.js',
    reaches: 'lib/nest/module.ts',
    rule: 'core-knows-core-only',
  },
  {
    from: 'lib/stores/redis/other-store.ts',
    imports: '../memory/index.js',
    reaches: 'lib/stores/memory/index.ts',
    rule: 'store-knows-core-and-itself',
  },
  {
    from: 'lib/stores/redis/transport.ts',
    imports: '../../transports/http/index.js',
    reaches: 'lib/transports/http/index.ts',
    rule: 'store-knows-core-and-itself',
  },
  {
    from: 'lib/stores/redis/injection.ts',
    imports: '@nestjs/common',
    reaches: 'node_modules/@nestjs/common/index.js',
    rule: 'store-knows-core-and-itself',
  },
  {
    from: 'lib/stores/redis/other-driver.ts',
    imports: 'pg',
    reaches: 'node_modules/pg/index.js',
    rule: 'redis-needs-ioredis-only',
  },
  {
    from: 'lib/stores/memory/driver.ts',
    imports: 'ioredis',
    reaches: 'node_modules/ioredis/index.js',
    rule: 'memory-needs-no-driver',
  },
  {
    from: 'lib/stores/postgres/other-driver.ts',
    imports: 'ioredis',
    reaches: 'node_modules/ioredis/index.js',
    rule: 'postgres-needs-pg-only',
  },
  {
    from: 'lib/stores/postgres/other-store.ts',
    imports: '../redis/index.js',
    reaches: 'lib/stores/redis/index.ts',
    rule: 'store-knows-core-and-itself',
  },
  ...['plain', 'json', 'messagepack'].flatMap((folder) => [
    {
      from: `lib/codecs/${folder}/transport.ts`,
      imports: '../../transports/call/index.js',
      reaches: 'lib/transports/call/index.ts',
      rule: 'codecs-know-core-and-themselves',
    },
    {
      from: `lib/codecs/${folder}/injection.ts`,
      imports: '@nestjs/common',
      reaches: 'node_modules/@nestjs/common/index.js',
      rule: 'codecs-know-core-and-themselves',
    },
    {
      from: `lib/codecs/${folder}/library.ts`,
      imports: 'ioredis',
      reaches: 'node_modules/ioredis/index.js',
      rule: `${folder}-codec-needs-its-library-only`,
    },
  ]),
  {
    from: 'lib/codecs/messagepack/neighbour.ts',
    imports: '../json/index.js',
    reaches: 'lib/codecs/json/index.ts',
    rule: 'codecs-know-core-and-themselves',
  },
  {
    from: 'lib/codecs/plain/neighbour.ts',
    imports: '../json/index.js',
    reaches: 'lib/codecs/json/index.ts',
    rule: 'codecs-know-core-and-themselves',
  },
  {
    from: 'lib/codecs/json/library-of-another.ts',
    imports: 'msgpackr',
    reaches: 'node_modules/msgpackr/index.js',
    rule: 'json-codec-needs-its-library-only',
  },
  {
    from: 'lib/core/codec.ts',
    imports: '../codecs/json/index.js',
    reaches: 'lib/codecs/json/index.ts',
    rule: 'core-knows-core-only',
  },
  {
    from: 'lib/transports/http/codec.ts',
    imports: '../../codecs/json/index.js',
    reaches: 'lib/codecs/json/index.ts',
    rule: 'codecs-are-below-calls',
  },
  {
    from: 'lib/stores/redis/codec.ts',
    imports: '../../codecs/plain/index.js',
    reaches: 'lib/codecs/plain/index.ts',
    rule: 'codecs-are-below-calls',
  },
  {
    from: 'lib/transports/call/codec.ts',
    imports: '../../codecs/messagepack/index.js',
    reaches: 'lib/codecs/messagepack/index.ts',
    rule: 'messagepack-is-an-entry-of-its-own',
  },
  {
    from: 'lib/nest/codec.ts',
    imports: '../codecs/messagepack/index.js',
    reaches: 'lib/codecs/messagepack/index.ts',
    rule: 'messagepack-is-an-entry-of-its-own',
  },
  {
    from: 'lib/bullmq/module.ts',
    imports: '../nest/module.js',
    reaches: 'lib/nest/module.ts',
    rule: 'bullmq-knows-core-and-its-library-only',
  },
  {
    from: 'lib/bullmq/injection.ts',
    imports: '@nestjs/common',
    reaches: 'node_modules/@nestjs/common/index.js',
    rule: 'bullmq-knows-core-and-its-library-only',
  },
  {
    from: 'lib/nest/jobs.ts',
    imports: '../bullmq/index.js',
    reaches: 'lib/bullmq/index.ts',
    rule: 'bullmq-is-an-entry-of-its-own',
  },
  {
    from: 'lib/transports/call/jobs.ts',
    imports: 'bullmq',
    reaches: 'node_modules/bullmq/index.js',
    rule: 'bullmq-is-an-entry-of-its-own',
  },
  {
    from: 'lib/cli/driver.ts',
    imports: 'pg',
    reaches: 'node_modules/pg/index.js',
    rule: 'cli-knows-migrations-only',
  },
  {
    from: 'lib/cli/store.ts',
    imports: '../stores/postgres/index.js',
    reaches: 'lib/stores/postgres/index.ts',
    rule: 'cli-knows-migrations-only',
  },
  {
    from: 'lib/stores/postgres/cli.ts',
    imports: '../../cli/main.js',
    reaches: 'lib/cli/main.ts',
    rule: 'nobody-imports-the-cli',
  },
  {
    from: 'lib/resilience/store.ts',
    imports: '../stores/memory/index.js',
    reaches: 'lib/stores/memory/index.ts',
    rule: 'resilience-knows-core-and-itself',
  },
  {
    from: 'lib/resilience/injection.ts',
    imports: '@nestjs/common',
    reaches: 'node_modules/@nestjs/common/index.js',
    rule: 'resilience-needs-opossum-only',
  },
  {
    from: 'lib/cache/store.ts',
    imports: '../stores/memory/index.js',
    reaches: 'lib/stores/memory/index.ts',
    rule: 'cache-knows-core-and-itself',
  },
  {
    from: 'lib/cache/breaker.ts',
    imports: '../resilience/breaker.js',
    reaches: 'lib/resilience/breaker.ts',
    rule: 'cache-knows-core-and-itself',
  },
  {
    from: 'lib/cache/injection.ts',
    imports: '@nestjs/common',
    reaches: 'node_modules/@nestjs/common/index.js',
    rule: 'cache-needs-lru-cache-only',
  },
  {
    from: 'lib/core/cache.ts',
    imports: '../cache/replies.js',
    reaches: 'lib/cache/replies.ts',
    rule: 'core-knows-core-only',
  },
  {
    from: 'lib/resilience/cache.ts',
    imports: '../cache/replies.js',
    reaches: 'lib/cache/replies.ts',
    rule: 'resilience-knows-core-and-itself',
  },
  {
    from: 'lib/core/resilience.ts',
    imports: '../resilience/breaker.js',
    reaches: 'lib/resilience/breaker.ts',
    rule: 'core-knows-core-only',
  },
  {
    from: 'lib/stores/redis/resilience.ts',
    imports: '../../resilience/breaker.js',
    reaches: 'lib/resilience/breaker.ts',
    rule: 'store-knows-core-and-itself',
  },
  {
    from: 'lib/transports/http/store.ts',
    imports: '../../stores/redis/index.js',
    reaches: 'lib/stores/redis/index.ts',
    rule: 'transport-knows-core-and-itself',
  },
  {
    from: 'lib/transports/http/module.ts',
    imports: '../../nest/module.js',
    reaches: 'lib/nest/module.ts',
    rule: 'transport-knows-core-and-itself',
  },
  {
    from: 'lib/transports/http/neighbour.ts',
    imports: '../message/index.js',
    reaches: 'lib/transports/message/index.ts',
    rule: 'transport-knows-core-and-itself',
  },
  {
    from: 'lib/transports/http/driver.ts',
    imports: 'ioredis',
    reaches: 'node_modules/ioredis/index.js',
    rule: 'transport-needs-nest-and-rxjs-only',
  },
  ...['microservices', 'websockets'].map((name) => ({
    from: `lib/transports/message/${name}.ts`,
    imports: `@nestjs/${name}`,
    reaches: `node_modules/@nestjs/${name}/index.js`,
    rule: 'package-of-one-way-in-is-loaded-when-it-is-needed',
  })),
  ...['graphql', '@nestjs/graphql'].map((name) => ({
    from: `lib/transports/graphql/${name.replace('/', '-')}.ts`,
    imports: name,
    reaches: `node_modules/${name}/index.js`,
    rule: 'transport-needs-nest-and-rxjs-only',
  })),
  {
    from: 'lib/transports/graphql/directive/nest.ts',
    imports: '@nestjs/graphql',
    reaches: 'node_modules/@nestjs/graphql/index.js',
    rule: 'directive-needs-graphql-only',
  },
  {
    from: 'lib/transports/graphql/early.ts',
    imports: './directive/idempotent-directive.js',
    reaches: 'lib/transports/graphql/directive/idempotent-directive.ts',
    rule: 'directive-is-loaded-when-it-is-needed',
  },
  {
    from: 'lib/transports/graphql/directive/early.ts',
    imports: 'graphql',
    reaches: 'node_modules/graphql/index.js',
    rule: 'directive-is-loaded-when-it-is-needed',
  },
  {
    from: 'lib/nest/directive.ts',
    imports: '../transports/graphql/index.js',
    reaches: 'lib/transports/graphql/index.ts',
    rule: 'directive-is-loaded-when-it-is-needed',
  },
  {
    from: 'lib/nest/store.ts',
    imports: '../stores/redis/index.js',
    reaches: 'lib/stores/redis/index.ts',
    rule: 'nest-knows-transports-and-core',
  },
  {
    from: 'lib/nest/kit.ts',
    imports: '../testing/store/index.js',
    reaches: 'lib/testing/store/index.ts',
    rule: 'nest-knows-transports-and-core',
  },
  {
    from: 'lib/nest/driver.ts',
    imports: 'ioredis',
    reaches: 'node_modules/ioredis/index.js',
    rule: 'nest-needs-nest-and-rxjs-only',
  },
  {
    from: 'lib/swagger/store.ts',
    imports: '../stores/memory/index.js',
    reaches: 'lib/stores/memory/index.ts',
    rule: 'swagger-knows-what-it-documents',
  },
  {
    from: 'lib/swagger/other-transport.ts',
    imports: '../transports/message/index.js',
    reaches: 'lib/transports/message/index.ts',
    rule: 'swagger-knows-what-it-documents',
  },
  {
    from: 'lib/swagger/driver.ts',
    imports: 'ioredis',
    reaches: 'node_modules/ioredis/index.js',
    rule: 'swagger-needs-nest-only',
  },
  {
    from: 'lib/nest/documents.ts',
    imports: '../swagger/index.js',
    reaches: 'lib/swagger/index.ts',
    rule: 'only-swagger-needs-swagger',
  },
  {
    from: 'lib/nest/swagger.ts',
    imports: '@nestjs/swagger',
    reaches: 'node_modules/@nestjs/swagger/index.js',
    rule: 'only-swagger-needs-swagger',
  },
  {
    from: 'lib/client/code.ts',
    imports: '../core/record.js',
    reaches: 'lib/core/record.ts',
    rule: 'client-knows-itself-only',
  },
  {
    from: 'lib/client/node.ts',
    imports: 'node:crypto',
    reaches: 'crypto',
    rule: 'client-knows-itself-only',
  },
  {
    from: 'lib/client/dependency.ts',
    imports: 'rxjs',
    reaches: 'node_modules/rxjs/index.js',
    rule: 'client-knows-itself-only',
  },
  {
    from: 'lib/testing/store/store.ts',
    imports: '../../stores/memory/index.js',
    reaches: 'lib/stores/memory/index.ts',
    rule: 'store-kit-knows-core-only',
  },
  {
    from: 'lib/testing/store/nest.ts',
    imports: '@nestjs/common',
    reaches: 'node_modules/@nestjs/common/index.js',
    rule: 'store-kit-knows-core-only',
  },
  {
    from: 'lib/testing/database.ts',
    imports: '../stores/redis/index.js',
    reaches: 'lib/stores/redis/index.ts',
    rule: 'testing-stands-on-everything-it-stands-in-for',
  },
  {
    from: 'lib/testing/kit.ts',
    imports: './store/index.js',
    reaches: 'lib/testing/store/index.ts',
    rule: 'testing-stands-on-everything-it-stands-in-for',
  },
  {
    from: 'lib/testing/runner.ts',
    imports: '@nestjs/testing',
    reaches: 'node_modules/@nestjs/testing/index.js',
    rule: 'testing-needs-no-test-runner',
  },
  {
    from: 'lib/testing/store/helper.ts',
    imports: '../index.js',
    reaches: 'lib/testing/index.ts',
    rule: 'store-kit-knows-core-only',
  },
  ...['core', 'nest', 'resilience', 'swagger'].map((folder) => ({
    from: `lib/${folder}/help-of-tests.ts`,
    imports: '../testing/index.js',
    reaches: 'lib/testing/index.ts',
    rule: 'nothing-knows-testing',
  })),
  {
    from: 'lib/index.ts',
    imports: './stores/memory/index.js',
    reaches: 'lib/stores/memory/index.ts',
    rule: 'index-without-stores',
  },
  {
    from: 'lib/nest/test-helper.ts',
    imports: '../../test/support/helper.js',
    reaches: 'test/support/helper.ts',
    rule: 'lib-stands-alone',
  },
  {
    from: 'lib/nest/sample.ts',
    imports: '../../sample-app/src/main.js',
    reaches: 'sample-app/src/main.ts',
    rule: 'lib-stands-alone',
  },
  {
    from: 'lib/nest/own-name.ts',
    imports: 'nestjs-idempotency/redis',
    reaches: 'nestjs-idempotency/redis',
    rule: 'lib-stands-alone',
  },
  {
    from: 'sample-app/src/internals.ts',
    imports: '../../lib/core/record.js',
    reaches: 'lib/core/record.ts',
    rule: 'sample-app-uses-the-public-entries',
  },
  {
    from: 'lib/nest/typo.ts',
    imports: './no-such-file.js',
    reaches: './no-such-file.js',
    rule: 'nothing-unresolvable',
  },
];

const packages = [
  '@nestjs/common',
  '@nestjs/graphql',
  '@nestjs/microservices',
  '@nestjs/swagger',
  '@nestjs/testing',
  '@nestjs/websockets',
  'bullmq',
  'graphql',
  'ioredis',
  'lru-cache',
  'msgpackr',
  'opossum',
  'rxjs',
  'safe-stable-stringify',
  ...Object.values(transactions),
];

/** Everything that the arrows allow, one import of each kind. */
const sound: Tree = {
  ...Object.fromEntries(
    packages.flatMap((name) => [
      [`node_modules/${name}/package.json`, JSON.stringify({ name, main: 'index.js' })],
      [`node_modules/${name}/index.js`, 'exports.x = 1;\n'],
    ]),
  ),
  'lib/core/record.ts': 'export const x = 1;\n',
  'lib/core/store.ts': `export { x } from './record.js';
export { createHash } from 'node:crypto';
export { stringify } from 'safe-stable-stringify';
`,
  'lib/stores/memory/index.ts': `export { x } from '../../core/record.js';\n`,
  'lib/stores/redis/index.ts': `export { x } from '../../core/record.js';
export { y } from './driver.js';
`,
  'lib/stores/redis/driver.ts': `export { x as y } from 'ioredis';\n`,
  'lib/stores/postgres/index.ts': `export { x } from './migrations.js';
export { x as y } from 'pg';
`,
  'lib/stores/postgres/migrations.ts': `export { x } from '../../core/record.js';\n`,
  ...Object.fromEntries(
    Object.entries(transactions).map(([folder, name]) => [
      `lib/transactions/${folder}/index.ts`,
      `export { x } from '../../core/record.js';\nexport { x as y } from '${name}';\n`,
    ]),
  ),
  'lib/transactions/drizzle/client.ts': `export { x } from '../pg/index.js';
export { x as y } from 'pg';
`,
  'lib/codecs/plain/index.ts': `export { x } from '../../core/record.js';\n`,
  'lib/codecs/json/index.ts': `export { x } from '../../core/record.js';
export { x as y } from '../plain/index.js';
`,
  'lib/codecs/messagepack/index.ts': `export { x } from '../../core/record.js';
export { x as y } from '../plain/index.js';
export { x as z } from 'msgpackr';
`,
  'lib/bullmq/index.ts': `export { x } from '../core/record.js';
export { x as y } from 'bullmq';
`,
  'lib/transports/call/index.ts': `export { x } from '../../codecs/json/index.js';\n`,
  'lib/nest/codec.ts': `export { x } from '../codecs/json/index.js';\n`,
  'lib/cli/main.ts': `export { x } from '../stores/postgres/migrations.js';\n`,
  'lib/cache/replies.ts': `export { x } from '../core/record.js';
export { x as y } from 'lru-cache';
`,
  'lib/resilience/breaker.ts': `export { x } from '../core/record.js';
export { x as y } from 'opossum';
`,
  'lib/transports/graphql/transport.ts': `export { x } from '../../core/record.js';
export const load = () => import('./directive/directive.js');
`,
  'lib/transports/graphql/index.ts': `export { x } from './directive/idempotent-directive.js';\n`,
  'lib/transports/graphql/directive/idempotent-directive.ts': `export { x } from 'graphql';\n`,
  'lib/transports/graphql/directive/directive.ts': `export type { x as y } from 'graphql';
export const load = () => import('graphql');
`,
  'lib/transports/message/index.ts': `export { x } from '../../core/record.js';
export const load = () => import('@nestjs/microservices');
`,
  'lib/transports/socket/index.ts': `export { x } from '../../core/record.js';
export const load = () => import('@nestjs/websockets');
`,
  'lib/transports/http/index.ts': `export { x } from '../../core/record.js';
export { x as y } from '@nestjs/common';
export { x as z } from 'rxjs';
`,
  'lib/nest/module.ts': `export { x } from '../core/record.js';
export { y } from '../transports/http/index.js';
export { x as z } from '@nestjs/common';
export { x as breaker } from '../resilience/breaker.js';
export { x as cache } from '../cache/replies.js';
`,
  'lib/swagger/index.ts': `export { x } from '../core/record.js';
export { y } from '../nest/module.js';
export { z } from '../transports/http/index.js';
export { x as document } from '@nestjs/swagger';
`,
  'lib/client/index.ts': `export { z } from './key.js';\n`,
  'lib/client/key.ts': 'export const z = 1;\n',
  'lib/testing/index.ts': `export { x } from '../core/record.js';
export { y } from '../nest/module.js';
export { z } from '../transports/http/index.js';
export { w } from '../stores/memory/index.js';
export * as common from '@nestjs/common';
`,
  'lib/testing/store/index.ts': `export { x } from '../../core/record.js';\n`,
  'lib/index.ts': `export { x } from './core/record.js';
export { y } from './nest/module.js';
`,
  'sample-app/src/main.ts': `export { x } from 'nestjs-idempotency';
export { y } from 'nestjs-idempotency/redis';
export { z } from 'nestjs-idempotency/pg';
export { w } from 'nestjs-idempotency/messagepack';
`,
  'test/support/helper.ts': `export { x } from '../../lib/core/record.js';\n`,
};

const imports = (specifier: string) => `export * from '${specifier}';\n`;
const importsTypes = (specifier: string) => `import type {} from '${specifier}';\n`;

describe('the arrows between the folders', () => {
  describe('on a tree that breaks each of them', () => {
    const circle: Tree = {
      'lib/core/chicken.ts': `import { egg } from './egg.js';\nexport const chicken = () => egg;\n`,
      'lib/core/egg.ts': `import { chicken } from './chicken.js';\nexport const egg = () => chicken;\n`,
      'lib/core/head.ts': `import type { Tail } from './tail.js';\nexport type Head = Tail[];\n`,
      'lib/core/tail.ts': `import type { Head } from './head.js';\nexport type Tail = Head[];\n`,
    };
    const broken = forbidden.map(({ from, imports: specifier }) => [
      from,
      (sound[from] ?? '') + imports(specifier),
    ]);
    const brokenByType: Tree = {
      'lib/nest/store-type.ts': importsTypes('../stores/redis/index.js'),
      'lib/core/nest-type.ts': importsTypes('@nestjs/common'),
    };
    let tree: Awaited<ReturnType<typeof plant>>;
    let found: string[];

    beforeAll(async () => {
      tree = await plant({ ...sound, ...Object.fromEntries(broken), ...circle, ...brokenByType });
      found = await brokenArrows(tree.root);
    });
    afterAll(() => tree.remove());

    it.each(forbidden)('$rule stops $from from importing $imports', ({ rule, from, reaches }) => {
      expect(found).toContain(`${rule}: ${from} → ${reaches}`);
    });

    it('stops an import of types like any other', () => {
      expect(found).toContain(
        'nest-knows-transports-and-core: lib/nest/store-type.ts → lib/stores/redis/index.ts',
      );
      expect(found).toContain(
        'core-knows-core-only: lib/core/nest-type.ts → node_modules/@nestjs/common/index.js',
      );
    });

    it('stops a circle, of values and of types', () => {
      expect(found).toContain('no-circle: lib/core/chicken.ts → lib/core/egg.ts');
      expect(found).toContain('no-circle: lib/core/head.ts → lib/core/tail.ts');
    });
  });

  it('allow what the design draws', async () => {
    const tree = await plant(sound);
    try {
      expect(await brokenArrows(tree.root)).toEqual([]);
    } finally {
      await tree.remove();
    }
  });

  it('hold in this project', async () => {
    expect(await brokenArrows(projectRoot)).toEqual([]);
    // It reads every file, on a machine that runs other tests at the same time.
  }, 120_000);
});

describe('ESLint', () => {
  it('sees circles, and injected classes that are imported as types', async () => {
    const service = (importOfLedger: string) => `import { Injectable } from './injectable.js';
${importOfLedger}

@Injectable()
export class Service {
  constructor(readonly ledger: Ledger) {}
}
`;
    const tree = await plant({
      'lib/chicken.ts': `import { egg } from './egg.js';\nexport const chicken = (): unknown => egg;\n`,
      'lib/egg.ts': `import { chicken } from './chicken.js';\nexport const egg = (): unknown => chicken;\n`,
      'lib/injectable.ts': `export const Injectable = (): ClassDecorator => () => undefined;\n`,
      'lib/ledger.ts': `export class Ledger {\n  readonly charges = 0;\n}\n`,
      'lib/service.ts': service(`import { Ledger } from './ledger.js';`),
      'lib/type-service.ts': service(`import type { Ledger } from './ledger.js';`),
      'lib/inline-type-service.ts': service(`import { type Ledger } from './ledger.js';`),
    });
    try {
      expect((await lintFindings(tree.root)).sort()).toEqual([
        'import-x/no-cycle: lib/chicken.ts',
        'import-x/no-cycle: lib/egg.ts',
        'local/injected-class-is-a-value: lib/inline-type-service.ts',
        'local/injected-class-is-a-value: lib/type-service.ts',
      ]);
    } finally {
      await tree.remove();
    }
  });

  it('sees regular expressions that take more than linear time in lib, and upper bounds on durations in tests', async () => {
    const reading = (pattern: string) =>
      `export const read = (text: string): string => text.replace(${pattern}, '');\n`;
    const expecting = (what: string) =>
      `import { expect } from '@jest/globals';
export const check = (started: number, elapsedMs: number) => [started, elapsedMs, expect(${what})];
`;
    const tree = await plant({
      'lib/trim.ts': reading(String.raw`/^[ \t]+|[ \t]+$/g`),
      'lib/found-anywhere.ts': reading(String.raw`/\d+;/`),
      'lib/sticky.ts': reading(String.raw`/ *;/gy`),
      'lib/digits.ts': reading(String.raw`/^(?:\d+)+;$/`),
      'lib/pairs.ts': reading(String.raw`/^[a-z]*[a-z]*;$/`),
      'lib/linear.ts': reading(String.raw`/^[ \t]+[a-z]+$/`),
      'test/trim.ts': reading(String.raw`/[ \t]+$/`),
      'test/since.ts': expecting('performance.now() - started).toBeLessThan(1_000'),
      'test/noted.ts': expecting('elapsedMs).toBeLessThanOrEqual(1_000'),
      'test/turned-round.ts': expecting('1_000).toBeGreaterThan(Date.now() - started'),
      'test/at-least.ts': expecting('performance.now() - started).toBeGreaterThan(1_000'),
    });
    try {
      expect((await lintFindings(tree.root)).sort()).toEqual([
        'no-restricted-syntax: test/noted.ts',
        'no-restricted-syntax: test/since.ts',
        'no-restricted-syntax: test/turned-round.ts',
        'regexp/no-super-linear-backtracking: lib/digits.ts',
        'regexp/no-super-linear-backtracking: lib/pairs.ts',
        'regexp/no-super-linear-move: lib/found-anywhere.ts',
        'regexp/no-super-linear-move: lib/sticky.ts',
        'regexp/no-super-linear-move: lib/trim.ts',
      ]);
    } finally {
      await tree.remove();
    }
  });

  it('sees what a bundle or a CommonJS build would break, in lib', async () => {
    const loading = (text: string) => `export const load = async (): Promise<unknown> => {
  ${text}
};
`;
    const tree = await plant({
      'lib/requiring.ts': `export { createRequire } from 'node:module';\n`,
      'lib/beside.ts': `export const folder = import.meta.url;\n`,
      'lib/unguarded.ts': loading(`return await import('node:net');`),
      'lib/by-name.ts': loading(`const name = String(1);
  try {
    return await import(name);
  } catch {
    return 0;
  }`),
      'lib/own.ts': loading(`return await import('./guarded.js');`),
      'lib/guarded.ts': loading(`try {
    return await import('node:net');
  } catch {
    return 0;
  }`),
      'lib/in-catch.ts': loading(`try {
    return 1;
  } catch {
    return await import('node:net');
  }`),
    });
    try {
      expect((await lintFindings(tree.root)).sort()).toEqual([
        '@typescript-eslint/no-unsafe-assignment: lib/beside.ts',
        'no-restricted-imports: lib/requiring.ts',
        'no-restricted-syntax: lib/beside.ts',
        'no-restricted-syntax: lib/by-name.ts',
        'no-restricted-syntax: lib/in-catch.ts',
        'no-restricted-syntax: lib/unguarded.ts',
      ]);
    } finally {
      await tree.remove();
    }
  });
});
