import { packageEntries } from './test/support/typescript/package-entries.mjs';

/** The projects of `npm run test:all`: what takes minutes, and what repeats the rest with other seeds, pairs and versions. */
export const subjects = {
  alerts: ['test/integration/alerts/*.all.test.ts', 'test/faults/alerts/*.all.test.ts'],
  chaos: ['lab/chaos/*.all.test.ts'],
  clients: ['test/e2e/browser.all.test.ts', 'test/e2e/client/lost-responses.all.test.ts'],
  connections: [
    'test/integration/redis/connections/{cluster-connections,shifted-replies}.test.ts',
    'test/integration/redis/connections/without-own-commands.all.test.ts',
    'test/integration/redis/ioredis-5/*.all.test.ts',
    'test/integration/redis/node-redis/*.all.test.ts',
    'test/integration/redis/servers/*.all.test.ts',
    'test/integration/reconciler/without-lock.test.ts',
    'test/integration/redis/engine-on-redis.test.ts',
  ],
  databases: [
    'test/integration/blobs/*.all.test.ts',
    'lab/measure/streams/*.all.test.ts',
    'test/conformance/stores.test.ts',
    'test/e2e/transactional/**/*.test.ts',
    'test/integration/postgres/newest-pgbouncer.all.test.ts',
    'test/integration/postgres/{partitions.all,transactions}.test.ts',
    'test/integration/sqlite/*.test.ts',
    'test/e2e/sample-app/postgres.test.ts',
    'test/integration/mysql/*.test.ts',
    'test/integration/{processes-end,servers-of-today}.all.test.ts',
    'test/integration/transactions/*.all.test.ts',
  ],
  differential: ['test/integration/differential/{differential,mysql,postgres,sqlite}.test.ts'],
  doctor: ['test/integration/cli/*.all.test.ts'],
  endurance: [
    'lab/measure/growth/*.endurance.all.test.ts',
    'test/e2e/http/responses/replay-endurance.test.ts',
    'lab/soak/*.all.test.ts',
  ],
  failovers: ['test/faults/failover/**/*.all.test.ts'],
  faults: [
    'test/faults/processes/**/*.all.test.ts',
    'test/faults/processes/{crashes,store-lost-at-complete}.test.ts',
    'test/faults/store/*.all.test.ts',
    'test/faults/payload/*.test.ts',
    'test/faults/transactions/{crashes,pauses.all}.test.ts',
    'test/e2e/**/{crashes,fencing,two-processes}.all.test.ts',
  ],
  messages: [
    'test/faults/messages/rabbitmq.test.ts',
    'test/e2e/messages/delivery-limits.all.test.ts',
  ],
  migration: ['examples/migration/**/*.test.ts'],
  model: ['lab/model/*.all.test.ts'],
  operators: ['test/integration/operators/{erasure.all,failover.all,operators}.test.ts'],
  packages: ['test/package/**/*.all.test.ts', 'test/contract/nest-versions.all.test.ts'],
  pairs: [
    'test/contract/{clients.all,contract}.test.ts',
    'test/e2e/allocations/allocations.all.test.ts',
    'test/e2e/decorators/packages.test.ts',
    'test/e2e/http/attempts/concurrency.test.ts',
    'test/e2e/http/surroundings/pipeline.test.ts',
    'test/e2e/socket/{handlers-without-ack,replay}.test.ts',
    'test/e2e/telemetry/attribution.test.ts',
  ],
  mistakes: [
    'test/conformance/mutants.all.test.ts',
    'test/faults/**/mutants.all.test.ts',
    'test/integration/{differential,operators}/mutants.all.test.ts',
  ],
  programs: ['test/e2e/{console,metrics,sample-app}/*.all.test.ts'],
  values: [
    'test/e2e/callers.test.ts',
    'test/e2e/http/requests/fuzz.all.test.ts',
    'test/unit/codecs/round-trips.test.ts',
    'test/unit/core/record/{canonical-json,fingerprint,record-key}.test.ts',
    'test/unit/http/idempotency-key.test.ts',
    'test/unit/message/keys/payload-key*.test.ts',
    'test/unit/payload/round-trips.test.ts',
  ],
  project: ['test/project/**/*.test.ts'],
  recipes: ['examples/{*,payments/service}/*.test.ts'],
  site: ['test/site/*.all.test.ts'],
  simulation: ['lab/simulate/*.all.test.ts'],
  tools: ['lab/walk/*.all.test.ts'],
};

/** Tests and the sample app are written against the package's name, and run its sources. */
const entries = Object.fromEntries(
  [...packageEntries(import.meta.dirname)].map(([name, { source }]) => [
    `^${name}$`,
    `<rootDir>/${source}`,
  ]),
);

/** @type {import('jest').Config} */
const shared = {
  testEnvironment: '<rootDir>/test/support/jest/environment.mjs',
  roots: ['<rootDir>/test', '<rootDir>/lab', '<rootDir>/examples'],
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: {
    ...entries,
    '^(\\.{1,2}/.*)\\.js$': '$1',
  },
  // light-my-request and @fastify/static require() these two, which are ES modules only. Node 20's real
  // require() can load them, Jest's cannot: so they are compiled to CommonJS.
  transformIgnorePatterns: ['/node_modules/(?!(.*/)?(cookie|content-disposition)/)'],
  transform: {
    '/node_modules/(.*/)?(cookie|content-disposition)/.+\\.js$': [
      '@swc/jest',
      { jsc: { target: 'es2022' }, module: { type: 'commonjs' } },
    ],
    '\\.ts$': [
      '@swc/jest',
      {
        jsc: {
          target: 'es2022',
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true, verbatimModuleSyntax: true },
          keepClassNames: true,
        },
        module: { type: 'es6' },
        sourceMaps: 'inline',
      },
    ],
  },
};

/**
 * Run with NODE_OPTIONS=--experimental-vm-modules: package and tests are ES modules.
 *
 * @type {import('jest').Config}
 */
export default {
  globalSetup: './test/support/servers/shared/set-up.mjs',
  globalTeardown: './test/support/servers/shared/tear-down.mjs',
  testTimeout: 30_000,
  projects: [
    {
      ...shared,
      displayName: 'push',
      testMatch: ['<rootDir>/{test,lab}/**/*.test.ts'],
      testPathIgnorePatterns: ['/node_modules/', '/test/project/', '\\.all\\.test\\.ts$'],
    },
    ...Object.entries(subjects).map(([displayName, files]) => ({
      ...shared,
      displayName,
      globals: { TEST_ALL: true },
      testMatch: files.map((file) => `<rootDir>/${file}`),
    })),
  ],
};
