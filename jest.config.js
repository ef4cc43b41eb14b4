import { readFileSync } from 'node:fs';
import { packageEntries } from './test/support/typescript/package-entries.mjs';

const parts = JSON.parse(readFileSync(new URL('test/parts.json', import.meta.url), 'utf8'));

/** Tests and the sample app are written against the package's name, and run its sources. */
const entries = Object.fromEntries(
  [...packageEntries(import.meta.dirname)].map(([name, { source }]) => [
    `^${name}$`,
    `<rootDir>/${source}`,
  ]),
);

/** @type {import('jest').Config} */
const shared = {
  testEnvironment: '<rootDir>/test/run/environment.mjs',
  roots: ['<rootDir>/test'],
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
  testSequencer: './test/run/sequencer.mjs',
  testTimeout: 30_000,
  projects: [
    {
      ...shared,
      displayName: 'push',
      testMatch: ['<rootDir>/test/**/*.test.ts'],
      testPathIgnorePatterns: ['/node_modules/', '\\.all\\.test\\.ts$'],
    },
    // What takes minutes, and what repeats the rest with other seeds, pairs and versions: `npm run test:all`.
    {
      ...shared,
      displayName: 'all',
      globals: { TEST_ALL: true },
      testMatch: Object.values(parts).flatMap(({ tests }) =>
        tests.map((path) => `<rootDir>/${path}`),
      ),
    },
  ],
};
