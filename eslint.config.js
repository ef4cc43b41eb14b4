import { createNodeResolver, importX } from 'eslint-plugin-import-x';
import * as regexp from 'eslint-plugin-regexp';
import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';
import { injectedClassIsAValue } from './eslint-rules/injected-class-is-a-value.js';

const UPPER_BOUND = 'CallExpression[callee.property.name=/^toBeLessThan/]';
const CLOCK = 'CallExpression[callee.property.name=/^(now|hrtime|bigint)$/]';
const DURATION = 'Identifier[name=/elapsed|duration|took|^(seconds|millis|ms)$/i]';
const TIMED =
  'A slow machine is not an error: assert the order, count steps, or drive the clock (test/support/clocks/driven-time.ts).';

const UPPER_BOUNDS = [
  `${UPPER_BOUND} CallExpression[callee.name='expect'] ${CLOCK}`,
  `${UPPER_BOUND} CallExpression[callee.name='expect'] ${DURATION}`,
  `CallExpression[callee.property.name=/^toBeGreaterThan/] > BinaryExpression[operator='-'] ${CLOCK}`,
].map((selector) => ({ selector, message: TIMED }));

const ONLY = ":matches([property.name='only'], [property.value='only'])";
const CHOSEN = [
  `CallExpression > MemberExpression.callee${ONLY}`,
  `MemberExpression > MemberExpression.object${ONLY}`,
  'CallExpression > Identifier.callee[name=/^(fit|fdescribe)$/]',
].map((selector) => ({
  selector,
  message: 'The other tests of the file do not run, in CI either.',
}));

/** In a bundle there are no other files, and in CommonJS no import.meta. */
const FILES = ['__dirname', '__filename', 'require'];
const LOADED = [
  { selector: 'MetaProperty[meta.name="import"]', message: 'CommonJS has none.' },
  {
    selector:
      'ImportExpression[source.value=/^[^.]/]:not(TryStatement > BlockStatement.block ImportExpression)',
    message: 'Inside a try: a bundler then ignores a package that is not installed.',
  },
  {
    selector: 'ImportExpression:not([source.type="Literal"])',
    message: 'No bundler can follow it.',
  },
];
/** `no-empty` takes a comment for a statement. */
const SILENT = {
  selector: 'CatchClause > BlockStatement.body[body.length=0]',
  message:
    'A failure that nothing reports is never repaired: reject it, report it, or do what is safe.',
};
const EXIT = { object: 'process', property: 'exit' };

/** What is said to users is text; of the code, one folder knows each client. */
const IOREDIS = [
  'ImportDeclaration[source.value="ioredis"]',
  'ExportNamedDeclaration[source.value="ioredis"]',
  'ImportExpression[source.value="ioredis"]',
  'Identifier[name=/ioredis/i]:not([name="ioredisLink"])',
  'Literal[value="ioredis"]',
].map((selector) => ({
  selector,
  message: 'Only lib/stores/redis/ioredis knows ioredis: ask the port, lib/stores/redis/link.',
}));

/** `'redis'` is also what the store calls its system. */
const NODE_REDIS = [
  'ImportDeclaration[source.value="redis"]',
  'ExportNamedDeclaration[source.value="redis"]',
  'ImportExpression[source.value="redis"]',
  'CallExpression[callee.name="requirePeer"] > Literal[value="redis"]',
].map((selector) => ({
  selector,
  message: 'Only lib/stores/redis/node-redis knows redis: ask the port, lib/stores/redis/link.',
}));

const IOREDIS_UNLOADED = IOREDIS.filter(
  ({ selector }) => !/^(?:ImportExpression|Literal)/.test(selector),
);

const CLOCK_OF_ENGINE =
  'Time, timers and chance come from the clock of the engine (lib/core/util/clock.ts): a test that drives it must see all of them.';
const TIME_GLOBALS = [
  ...['setTimeout', 'setInterval', 'setImmediate', 'clearTimeout', 'clearInterval'],
  ...['clearImmediate', 'queueMicrotask', 'performance', 'crypto'],
];
const TIME_PROPERTIES = {
  Date: ['now'],
  Math: ['random'],
  process: ['nextTick', 'hrtime', 'uptime'],
  AbortSignal: ['timeout'],
  globalThis: TIME_GLOBALS,
};
const RXJS_TIMERS = ['asyncScheduler', 'asapScheduler', 'timer', 'interval', 'delay', 'timeout'];
const RANDOM = ['randomBytes', 'randomFill', 'randomFillSync', 'randomInt', 'randomUUID'];
const TIME_IMPORTS = {
  'node:crypto': [...RANDOM, 'getRandomValues', 'webcrypto'],
  'node:process': TIME_PROPERTIES.process,
  'node:timers': undefined,
  'node:timers/promises': undefined,
  'node:perf_hooks': undefined,
  rxjs: RXJS_TIMERS,
};

/** @param {string[]} allowed - what a file may use nevertheless. */
function clockOfEngine(allowed = []) {
  const message = CLOCK_OF_ENGINE;
  const isForbidden = (name) => !allowed.includes(name);
  return {
    'no-restricted-globals': [
      'error',
      ...FILES,
      ...TIME_GLOBALS.filter(isForbidden).map((name) => ({ name, message })),
    ],
    'no-restricted-properties': [
      'error',
      EXIT,
      ...Object.entries(TIME_PROPERTIES).flatMap(([object, properties]) =>
        properties.filter(isForbidden).map((property) => ({ object, property, message })),
      ),
    ],
    'no-restricted-imports': [
      'error',
      'node:module',
      ...Object.entries(TIME_IMPORTS).map(([name, importNames]) => ({
        name,
        message,
        ...(importNames && { importNames }),
      })),
    ],
    'no-restricted-syntax': [
      'error',
      ...LOADED,
      ...IOREDIS,
      ...NODE_REDIS,
      SILENT,
      { selector: 'NewExpression[callee.name="Date"][arguments.length=0]', message },
      {
        selector:
          'Identifier[name="nodeClock"]:not(ImportSpecifier > Identifier, AssignmentPattern > Identifier.right)',
        message: 'Only as the default of a parameter: the engine may have another clock.',
      },
    ],
  };
}

/** What tests may do, and must not; so do the tools of `lab`, whose eslint.config.js takes it from here. */
export const ofTests = {
  'no-restricted-syntax': ['error', ...UPPER_BOUNDS, ...CHOSEN],
  // Data from the wire is `any`: the assertion checks it.
  '@typescript-eslint/no-explicit-any': 'off',
  '@typescript-eslint/no-unsafe-argument': 'off',
  '@typescript-eslint/no-unsafe-assignment': 'off',
  '@typescript-eslint/no-unsafe-call': 'off',
  '@typescript-eslint/no-unsafe-member-access': 'off',
  '@typescript-eslint/no-unsafe-return': 'off',
  // Private members by their name in brackets keep their types.
  '@typescript-eslint/dot-notation': ['error', { allowPrivateClassPropertyAccess: true }],
  // A missing element fails the test at the next step anyway.
  '@typescript-eslint/no-non-null-assertion': 'off',
  // Handlers under test are async because handlers are.
  '@typescript-eslint/require-await': 'off',
};

/** The same of files that Jest runs. */
export const ofTestFiles = {
  'no-restricted-syntax': [
    'error',
    ...UPPER_BOUNDS,
    ...CHOSEN,
    {
      selector:
        "CallExpression[callee.name='beforeAll'][arguments.length=1] :matches(CallExpression[callee.name=/^start(Redis|Postgres|RabbitMq|Nats|Mosquitto)$/], CallExpression[callee.object.name=/^Redis(Node|Cluster|Sentinel)$/][callee.property.name='start'])",
      message: 'A server may need minutes on a busy machine: give the hook START_HOOK_MS.',
    },
  ],
};

export default defineConfig(
  globalIgnores(['**/dist/', '**/build/', '**/node_modules/', 'coverage/', 'test/.tmp-*/']),
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    plugins: {
      'import-x': importX,
      local: { rules: { 'injected-class-is-a-value': injectedClassIsAValue } },
    },
    languageOptions: {
      parserOptions: {
        // The one project that holds lib, tests and the sample app.
        project: ['test/tsconfig.json'],
        tsconfigRootDir: import.meta.dirname,
      },
    },
    settings: {
      // Without these two, no-cycle reads no TypeScript and silently finds nothing.
      'import-x/parsers': { '@typescript-eslint/parser': ['.ts'] },
      'import-x/extensions': ['.ts', '.js'],
      // An import of './x.js' means x.ts.
      'import-x/resolver-next': [createNodeResolver({ extensionAlias: { '.js': ['.ts', '.js'] } })],
    },
    rules: {
      'import-x/no-cycle': 'error',
      'import-x/no-duplicates': 'error',
      'import-x/no-default-export': 'error',
      eqeqeq: 'error',

      // A number in a message is intended.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      // A Nest module is often nothing but its decorator.
      '@typescript-eslint/no-extraneous-class': ['error', { allowWithDecorator: true }],
      // Nest declares the types of its option objects as classes.
      '@typescript-eslint/no-unsafe-class-instance-assignment': 'off',
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      // An unused parameter may be required by a decorator or an interface; the underscore marks it.
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', ignoreRestSiblings: true },
      ],
      // So never consistent-type-imports, which would break injections one by one.
      'local/injected-class-is-a-value': 'error',
    },
  },
  {
    files: ['{lib,packages/*/lib}/**/*.ts'],
    plugins: { regexp },
    rules: {
      // The sender chooses the text: no regular expression may take more than linear time.
      'regexp/no-super-linear-backtracking': ['error', { report: 'potential' }],
      'regexp/no-super-linear-move': [
        'error',
        { report: 'potential', ignoreSticky: false, ignorePartial: false },
      ],

      // The declaration files are the documentation: a return type is written, not inferred.
      '@typescript-eslint/explicit-module-boundary-types': 'error',
      'no-restricted-imports': ['error', 'node:module'],
      'no-restricted-globals': ['error', ...FILES],
      'no-restricted-syntax': ['error', ...LOADED, ...IOREDIS, ...NODE_REDIS, SILENT],
      'no-empty': ['error', { allowEmptyCatch: false }],

      // A library does not write to its host's console, and does not end its process.
      'no-console': 'error',
      'no-restricted-properties': ['error', EXIT],
    },
  },
  {
    files: [
      'lib/core/**/*.ts',
      'lib/transports/**/*.ts',
      'lib/stores/memory/**/*.ts',
      'lib/nest/idempotency-reconciler.ts',
    ],
    ignores: ['lib/core/util/clock.ts'],
    rules: clockOfEngine(),
  },
  {
    // They stand in for Node's streams: their callbacks come as those of the streams do, whatever the time.
    files: ['lib/transports/http/response/{raw,fastify}-recorder.ts'],
    rules: clockOfEngine(['nextTick', 'setImmediate']),
  },
  {
    files: ['lib/stores/redis/ioredis/**/*.ts'],
    rules: { 'no-restricted-syntax': ['error', ...LOADED, ...NODE_REDIS, SILENT] },
  },
  {
    files: ['lib/stores/redis/node-redis/**/*.ts'],
    rules: { 'no-restricted-syntax': ['error', ...LOADED, ...IOREDIS, SILENT] },
  },
  {
    // As an application, it makes the Cluster that it passes to the store.
    files: ['lib/cli/servers/redis-servers.ts'],
    rules: {
      'no-restricted-syntax': ['error', ...LOADED, ...IOREDIS_UNLOADED, ...NODE_REDIS, SILENT],
    },
  },
  { files: ['{test,examples}/**/*.ts'], rules: ofTests },
  { files: ['{test,examples}/**/*.test.ts'], ignores: ['test/faults/**'], rules: ofTestFiles },
);
