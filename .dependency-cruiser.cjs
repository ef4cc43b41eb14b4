const { join } = require('node:path');

/**
 * The arrows between the folders of the library: nest → transports → core ← stores.
 *
 * test/unit/architecture.test.ts breaks each of them once and expects this file to notice.
 *
 * @type {import('dependency-cruiser').IConfiguration}
 */
module.exports = {
  forbidden: [
    {
      name: 'no-circle',
      comment: 'Two files that need each other are one thing in two places.',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'nothing-unresolvable',
      comment: 'An import that cannot be found cannot be judged either.',
      severity: 'error',
      from: {},
      // The package's own name leads to dist, which is there after a build only; the benchmark's peers to packages of its own.
      to: {
        couldNotResolve: true,
        pathNot: ['^nestjs-idempotency(/|$)', '^@node-idempotency/nestjs$'],
      },
    },
    {
      name: 'core-knows-core-only',
      comment: 'The protocol runs without Nest, without a database, without a transport.',
      severity: 'error',
      from: { path: '^lib/core/' },
      to: {
        pathNot: ['^lib/core/', '^node_modules/safe-stable-stringify/'],
        dependencyTypesNot: ['core'],
      },
    },
    {
      name: 'store-knows-core-and-itself',
      comment: 'A store is one folder: no other store, no transport, no Nest.',
      severity: 'error',
      from: { path: '^lib/stores/([^/]+)/' },
      to: { path: ['^lib/', '^node_modules/@nestjs/'], pathNot: ['^lib/core/', '^lib/stores/$1/'] },
    },
    {
      name: 'memory-needs-no-driver',
      severity: 'error',
      from: { path: '^lib/stores/memory/' },
      to: { path: '^node_modules/' },
    },
    {
      name: 'redis-needs-ioredis-only',
      severity: 'error',
      from: { path: '^lib/stores/redis/' },
      to: { path: '^node_modules/', pathNot: '^node_modules/ioredis/' },
    },
    {
      name: 'postgres-needs-pg-only',
      severity: 'error',
      from: { path: '^lib/stores/postgres/' },
      to: { path: '^node_modules/', pathNot: '^node_modules/pg/' },
    },
    {
      name: 'transactions-know-core-and-themselves',
      comment:
        'One library, one folder: no store, no Nest, no other folder but shared, which is below all.',
      severity: 'error',
      from: { path: '^lib/transactions/([^/]+)/' },
      to: {
        path: ['^lib/', '^node_modules/@nestjs/'],
        pathNot: ['^lib/core/', '^lib/transactions/(shared|$1)/'],
      },
    },
    ...Object.entries({
      pg: '(pg)',
      typeorm: '(typeorm)',
      prisma: '(@prisma/client)',
      kysely: '(kysely)',
      drizzle: '(drizzle-orm|pg)',
      knex: '(knex)',
    }).map(([folder, packages]) => ({
      name: `${folder}-transactions-need-their-library-only`,
      severity: 'error',
      from: { path: `^lib/transactions/${folder}/` },
      to: { path: '^node_modules/', pathNot: `^node_modules/${packages}/` },
    })),
    {
      name: 'transactions-are-entries-of-their-own',
      comment: 'Who uses one library loads no other: the user passes a unit of work, as a store.',
      severity: 'error',
      from: { path: '^lib/', pathNot: '^lib/transactions/' },
      to: { path: '^lib/transactions/' },
    },
    {
      name: 'codecs-know-core-and-themselves',
      comment: 'One format, one folder: no other but plain, which is below all.',
      severity: 'error',
      from: { path: '^lib/codecs/([^/]+)/' },
      to: {
        path: ['^lib/', '^node_modules/@nestjs/'],
        pathNot: ['^lib/core/', '^lib/codecs/(plain|$1)/'],
      },
    },
    ...Object.entries({ plain: '-', json: '-', messagepack: 'msgpackr' }).map(
      ([folder, library]) => ({
        name: `${folder}-codec-needs-its-library-only`,
        severity: 'error',
        from: { path: `^lib/codecs/${folder}/` },
        to: { path: '^node_modules/', pathNot: `^node_modules/${library}/` },
      }),
    ),
    {
      name: 'codecs-are-below-calls',
      comment: 'Only what hands values in and out writes them down; the module has a default.',
      severity: 'error',
      from: { path: '^lib/', pathNot: '^lib/(codecs/|nest/|transports/call/|index\\.ts$)' },
      to: { path: '^lib/codecs/' },
    },
    {
      name: 'messagepack-is-an-entry-of-its-own',
      comment: 'Who keeps values as JSON loads no library for it.',
      severity: 'error',
      from: { path: '^lib/', pathNot: '^lib/codecs/messagepack/' },
      to: { path: '^lib/codecs/messagepack/' },
    },
    {
      name: 'bullmq-knows-core-and-its-library-only',
      comment: 'What a job is told has nothing to do with how its processor was called.',
      severity: 'error',
      from: { path: '^lib/bullmq/' },
      to: {
        path: ['^lib/', '^node_modules/'],
        pathNot: ['^lib/(core|bullmq)/', '^node_modules/bullmq/'],
      },
    },
    {
      name: 'bullmq-is-an-entry-of-its-own',
      comment: 'Who has no queues loads no library for them.',
      severity: 'error',
      from: { path: '^lib/', pathNot: '^lib/bullmq/' },
      to: { path: ['^lib/bullmq/', '^node_modules/bullmq/'] },
    },
    {
      name: 'cli-knows-migrations-only',
      comment: 'It prints what is shipped: without a database, without a driver, without Nest.',
      severity: 'error',
      from: { path: '^lib/cli/' },
      to: {
        path: ['^lib/', '^node_modules/'],
        pathNot: [
          '^lib/cli/',
          '^lib/core/util/errors\\.ts$',
          '^lib/stores/postgres/(schema/migrations|sql/sql-texts\\.generated|sql/table-name)\\.ts$',
        ],
      },
    },
    {
      name: 'nobody-imports-the-cli',
      comment: 'It runs when it is loaded.',
      severity: 'error',
      from: { pathNot: '^lib/cli/' },
      to: { path: '^lib/cli/' },
    },
    {
      name: 'resilience-knows-core-and-itself',
      comment: 'What stands around a store stands around any store.',
      severity: 'error',
      from: { path: '^lib/wrappers/' },
      to: { path: '^lib/', pathNot: '^lib/(core|wrappers)/' },
    },
    {
      name: 'resilience-needs-opossum-only',
      severity: 'error',
      from: { path: '^lib/wrappers/' },
      to: { path: '^node_modules/', pathNot: '^node_modules/opossum/' },
    },
    {
      name: 'transport-knows-core-and-itself',
      comment: 'What all requests have in common is below every way in.',
      severity: 'error',
      from: {
        path: '^lib/transports/([^/]+)/',
        pathNot: '^lib/transports/(graphql|message|websocket)/',
      },
      to: {
        path: '^lib/',
        pathNot: ['^lib/core/', '^lib/codecs/json/', '^lib/transports/(common|$1)/'],
      },
    },
    {
      name: 'value-transport-stands-on-calls',
      comment: 'Whatever hands values in and out stands on plain calls, and on no other way in.',
      severity: 'error',
      from: { path: '^lib/transports/(graphql|message|websocket)/' },
      to: { path: '^lib/', pathNot: ['^lib/core/', '^lib/transports/(call|common|$1)/'] },
    },
    {
      name: 'transport-needs-nest-and-rxjs-only',
      comment: 'Both HTTP platforms are driven through what Nest and Node offer.',
      severity: 'error',
      from: { path: '^lib/transports/' },
      to: {
        path: '^node_modules/',
        pathNot: [
          '^node_modules/@nestjs/(common|core|microservices|websockets)/',
          '^node_modules/rxjs/',
        ],
      },
    },
    {
      name: 'package-of-one-way-in-is-loaded-when-it-is-needed',
      comment: 'Who has no consumers and no gateways installs nothing for them.',
      severity: 'error',
      from: { path: '^lib/' },
      to: {
        path: '^node_modules/@nestjs/(microservices|websockets)/',
        dependencyTypesNot: ['dynamic-import'],
      },
    },
    {
      name: 'nest-knows-transports-and-core',
      comment:
        'The user passes a store; the module never picks one, but may put something around it.',
      severity: 'error',
      from: { path: '^lib/nest/' },
      to: {
        path: '^lib/',
        pathNot: ['^lib/(core|nest|transports|wrappers)/', '^lib/codecs/json/'],
      },
    },
    {
      name: 'nest-needs-nest-and-rxjs-only',
      severity: 'error',
      from: { path: '^lib/nest/' },
      to: {
        path: '^node_modules/',
        pathNot: ['^node_modules/@nestjs/(common|core)/', '^node_modules/(rxjs|reflect-metadata)/'],
      },
    },
    {
      name: 'swagger-knows-what-it-documents',
      comment:
        'It reads what the module knows of its routes, and what the transport answers on them.',
      severity: 'error',
      from: { path: '^lib/swagger/' },
      to: {
        path: '^lib/',
        pathNot: ['^lib/(core|nest|swagger)/', '^lib/transports/(http|common)/'],
      },
    },
    {
      name: 'swagger-needs-nest-only',
      severity: 'error',
      from: { path: '^lib/swagger/' },
      to: {
        path: '^node_modules/',
        pathNot: '^node_modules/@nestjs/(common|core|swagger)/',
      },
    },
    {
      name: 'only-swagger-needs-swagger',
      comment: 'Who documents nothing installs nothing for it.',
      severity: 'error',
      from: { path: '^lib/', pathNot: '^lib/swagger/' },
      to: { path: ['^lib/swagger/', '^node_modules/@nestjs/swagger/'] },
    },
    {
      name: 'client-knows-itself-only',
      comment: 'It runs in browsers, where there is neither Node nor Nest.',
      severity: 'error',
      from: { path: '^lib/client/' },
      to: { pathNot: '^lib/client/' },
    },
    {
      name: 'store-kit-knows-core-only',
      comment: 'The conformance kit runs under the test runner of whoever wrote the store.',
      severity: 'error',
      from: { path: '^lib/testing/store/' },
      to: { path: ['^lib/', '^node_modules/'], pathNot: ['^lib/(core|testing/store)/'] },
    },
    {
      name: 'testing-stands-on-everything-it-stands-in-for',
      comment:
        'It is the module with other providers, records in memory, and what its transports have written into them.',
      severity: 'error',
      from: { path: '^lib/testing/[^/]+$' },
      to: {
        path: '^lib/',
        pathNot: ['^lib/(core|nest|transports|testing/[^/]+$)', '^lib/stores/memory/'],
      },
    },
    {
      name: 'testing-needs-no-test-runner',
      comment:
        'It is used under Jest, Vitest and whatever comes next, and with no testing module as well.',
      severity: 'error',
      from: { path: '^lib/testing/' },
      to: {
        path: '^node_modules/',
        pathNot: ['^node_modules/@nestjs/common/', '^node_modules/rxjs/'],
      },
    },
    {
      name: 'nothing-knows-testing',
      comment: 'What runs in production has nothing of a test in it.',
      severity: 'error',
      from: { path: '^lib/', pathNot: '^lib/testing/' },
      to: { path: '^lib/testing/' },
    },
    {
      name: 'index-without-stores',
      comment: 'Who uses one store loads no other: each has an entry of its own.',
      severity: 'error',
      from: { path: '^lib/index\\.ts$' },
      to: { path: '^lib/stores/' },
    },
    {
      name: 'lib-stands-alone',
      severity: 'error',
      from: { path: '^lib/' },
      to: { path: ['^(test|sample-app|dist)/', '^nestjs-idempotency(/|$)'] },
    },
    {
      name: 'sample-app-uses-the-public-entries',
      comment: 'It is written as its reader would write it.',
      severity: 'error',
      from: { path: '^sample-app/' },
      to: {
        path: '^(lib|test)/',
        pathNot:
          '^lib/(index|(bullmq|client|swagger|testing|testing/store)/index|(stores|transactions)/[^/]+/index|codecs/messagepack/index)\\.ts$',
      },
    },
  ],
  options: {
    doNotFollow: { path: '(^|/)(node_modules|dist)/' },
    // What tests have generated, and other tests that run at the same time would find.
    exclude: { path: '^test/\\.tmp-' },
    // A circle of types is a circle.
    tsPreCompilationDeps: true,
    tsConfig: { fileName: join(__dirname, 'test/tsconfig.json') },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
    },
  },
};
