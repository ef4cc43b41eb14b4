import { packageEntries } from './test/support/typescript/package-entries.mjs';

/** The projects of `npm run test:all`: what takes minutes, and what repeats the rest with other seeds, pairs and versions. */
export const subjects = {
  alerts: ['integration/alerts/*.all.test.ts', 'faults/alerts/*.all.test.ts'],
  chaos: ['faults/chaos.all.test.ts'],
  clients: ['e2e/browser.test.ts', 'e2e/client/lost-responses.test.ts'],
  connections: [
    'integration/redis/connections/{cluster-connections,shifted-replies}.test.ts',
    'integration/redis/connections/without-own-commands.all.test.ts',
    'integration/redis/ioredis-5/*.all.test.ts',
    'integration/redis/valkey.all.test.ts',
    'integration/reconciler/without-lock.test.ts',
    'integration/redis/engine-on-redis.test.ts',
  ],
  databases: [
    'conformance/stores.test.ts',
    'e2e/transactional/**/*.test.ts',
    'integration/postgres/newest-pgbouncer.all.test.ts',
    'integration/postgres/{partitions,record-lock,serializable,transaction-control}.test.ts',
    'e2e/sample-app/postgres.test.ts',
    'integration/transactions/*.all.test.ts',
  ],
  differential: ['integration/differential/{differential,postgres}.test.ts'],
  doctor: ['integration/cli/*.all.test.ts'],
  endurance: [
    'e2e/**/*.endurance.all.test.ts',
    'e2e/http/responses/replay-endurance.test.ts',
    'soak/*.all.test.ts',
  ],
  failovers: ['faults/failover/**/*.all.test.ts'],
  faults: [
    'faults/{processes,store}/**/*.all.test.ts',
    'faults/processes/{crashes,duplicates,store-lost-at-complete}.test.ts',
    'faults/transactions/{crashes,pauses.all}.test.ts',
    'e2e/fencing/fencing.test.ts',
    'e2e/{reconciler/crashes,two-processes}.test.ts',
  ],
  messages: ['faults/messages/rabbitmq.test.ts', 'e2e/messages/delivery-limits.all.test.ts'],
  migration: ['e2e/recipes/migration/**/*.all.test.ts'],
  model: ['lab/model/*.all.test.ts'],
  packages: ['package/**/*.all.test.ts', 'contract/nest-versions.all.test.ts'],
  pairs: [
    'contract/contract.test.ts',
    'e2e/allocations/allocations.test.ts',
    'e2e/decorators/packages.test.ts',
    'e2e/http/attempts/{concurrency,shutdown}.test.ts',
    'e2e/http/surroundings/pipeline.test.ts',
    'e2e/socket/{failures,hybrid,replay,unattended-handlers}.test.ts',
    'e2e/telemetry/attribution.test.ts',
  ],
  mistakes: [
    'conformance/mutants.all.test.ts',
    'faults/**/mutants.all.test.ts',
    'integration/differential/mutants.all.test.ts',
  ],
  programs: ['e2e/sample-app/*.all.test.ts', 'integration/brokers/**/*.test.ts'],
  values: [
    'e2e/callers.test.ts',
    'e2e/http/requests/fuzz.test.ts',
    'unit/codecs/round-trips.test.ts',
    'unit/core/record/{canonical-json,fingerprint,record-key}.test.ts',
    'unit/http/idempotency-key.test.ts',
    'unit/message/keys/payload-key*.test.ts',
  ],
  recipes: ['e2e/recipes/*/*.all.test.ts', 'e2e/recipes/saga/saga.test.ts'],
  simulation: ['lab/simulate/*.all.test.ts'],
  tools: ['lab/walk/*.all.test.ts', 'unit/run/*.all.test.ts'],
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
  roots: ['<rootDir>/test', '<rootDir>/lab'],
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
      testPathIgnorePatterns: ['/node_modules/', '\\.all\\.test\\.ts$'],
    },
    ...Object.entries(subjects).map(([displayName, files]) => ({
      ...shared,
      displayName,
      globals: { TEST_ALL: true },
      testMatch: files.map((file) => `<rootDir>/${file.startsWith('lab/') ? '' : 'test/'}${file}`),
    })),
  ],
};
