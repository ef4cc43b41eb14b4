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
      // The package's own name leads to dist, which is there after a build only.
      to: { couldNotResolve: true, pathNot: '^nestjs-idempotency(/|$)' },
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
        "One library, one folder: no store, no Nest, no other folder but pg's, which is below all.",
      severity: 'error',
      from: { path: '^lib/transactions/([^/]+)/' },
      to: {
        path: ['^lib/', '^node_modules/@nestjs/'],
        pathNot: ['^lib/core/', '^lib/transactions/(pg|$1)/'],
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
      name: 'cli-knows-migrations-only',
      comment: 'It prints what is shipped: without a database, without a driver, without Nest.',
      severity: 'error',
      from: { path: '^lib/cli/' },
      to: {
        path: ['^lib/', '^node_modules/'],
        pathNot: [
          '^lib/cli/',
          '^lib/core/errors\\.ts$',
          '^lib/stores/postgres/(migrations|table-name)\\.ts$',
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
      from: { path: '^lib/resilience/' },
      to: { path: '^lib/', pathNot: '^lib/(core|resilience)/' },
    },
    {
      name: 'resilience-needs-opossum-only',
      severity: 'error',
      from: { path: '^lib/resilience/' },
      to: { path: '^node_modules/', pathNot: '^node_modules/opossum/' },
    },
    {
      name: 'transport-knows-core-and-itself',
      severity: 'error',
      from: { path: '^lib/transports/([^/]+)/' },
      to: { path: '^lib/', pathNot: ['^lib/core/', '^lib/transports/$1/'] },
    },
    {
      name: 'transport-needs-nest-and-rxjs-only',
      comment: 'Both HTTP platforms are driven through what Nest and Node offer.',
      severity: 'error',
      from: { path: '^lib/transports/' },
      to: {
        path: '^node_modules/',
        pathNot: ['^node_modules/@nestjs/(common|core)/', '^node_modules/rxjs/'],
      },
    },
    {
      name: 'nest-knows-transports-and-core',
      comment:
        'The user passes a store; the module never picks one, but may put something around it.',
      severity: 'error',
      from: { path: '^lib/nest/' },
      to: { path: '^lib/', pathNot: ['^lib/(core|nest|resilience|transports)/'] },
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
      to: { path: '^lib/', pathNot: ['^lib/(core|nest|swagger)/', '^lib/transports/http/'] },
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
      name: 'testing-knows-core-only',
      comment: 'The conformance kit runs under the test runner of whoever wrote the store.',
      severity: 'error',
      from: { path: '^lib/testing/' },
      to: { path: ['^lib/', '^node_modules/'], pathNot: ['^lib/(core|testing)/'] },
    },
    {
      name: 'index-without-stores',
      comment: 'Who uses one store loads no other: each has an entry of its own.',
      severity: 'error',
      from: { path: '^lib/index\\.ts$' },
      to: { path: '^lib/(stores|testing)/' },
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
          '^lib/(index|(client|swagger|testing)/index|(stores|transactions)/[^/]+/index)\\.ts$',
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
