const { join } = require('node:path');
const { packages, rows } = require('./.dependency-cruiser.folders.cjs');
const { exports: entries } = require('./package.json');

const escaped = (path) => path.replace(/[.$]/g, '\\$&');

const inPackage = (name) => `^node_modules/${escaped(name)}/`;

/** What stands in one of `paths` itself: not in a folder below it. */
const filesOf = (paths) =>
  paths.map((path) => (path.endsWith('.ts') ? `^lib/${escaped(path)}$` : `^lib/${path}/[^/]+$`));

/** Files of lib that package.json lets users import. */
const publicFiles = Object.values(entries)
  .flatMap(({ import: file }) => file?.default ?? [])
  .map((file) => escaped(file.replace('./dist/esm/', '').replace(/\.js$/, '.ts')));

const forbid = (name, comment, from, to) => ({ name, comment, severity: 'error', from, to });

/**
 * The arrows between the folders of the library: nest → transports → core ← stores.
 *
 * test/project/arrows.test.ts breaks each of them and expects this file to notice.
 *
 * @type {import('dependency-cruiser').IConfiguration}
 */
module.exports = {
  forbidden: [
    ...[...rows].map(([folder, imports]) =>
      forbid(
        `lib/${folder}`,
        `It may import ${imports.join(', ') || 'nothing else of lib'}.`,
        { path: filesOf([folder]) },
        { path: '^lib/', pathNot: filesOf([folder, ...imports]) },
      ),
    ),
    ...packages.flatMap(({ name, users, ways }) => {
      const from = filesOf(users);
      const to = { path: [inPackage(name)] };
      const rule = forbid(
        `package ${name}`,
        `Only ${users.join(', ')} may import it.`,
        { path: ['^lib/'], pathNot: from },
        to,
      );
      const ruleOfWays = forbid(
        `package ${name}, ${ways?.join(' or ')}`,
        'It need not be installed.',
        { path: from },
        { ...to, dependencyTypesNot: ways },
      );
      return ways === undefined ? [rule] : [rule, ruleOfWays];
    }),
    forbid(
      'package-without-a-row',
      'Each package stands in .dependency-cruiser.folders.cjs.',
      { path: '^lib/' },
      {
        path: '^node_modules/',
        pathNot: packages.map(({ name }) => inPackage(name)),
      },
    ),
    forbid(
      'folder-without-a-row',
      'Each folder stands in .dependency-cruiser.folders.cjs.',
      { path: '^lib/', pathNot: filesOf([...rows.keys()]) },
      {},
    ),
    forbid(
      'lib-stands-alone',
      'lib must not import tests, the sample app or its own package by name.',
      { path: '^lib/' },
      { pathNot: ['^lib/', '^node_modules/'], dependencyTypesNot: ['core'] },
    ),
    forbid(
      'nest-internals-in-one-file',
      'Names that Nest does not export are known to lib/nest/discovery/nest-metadata.ts alone.',
      { path: '^lib/', pathNot: '^lib/nest/discovery/nest-metadata\\.ts$' },
      { path: '^node_modules/@nestjs/', pathNot: '^node_modules/@nestjs/[^/]+/(dist/)?index\\.' },
    ),
    forbid(
      'client-stands-alone',
      'It runs in browsers, which have neither packages nor modules of Node.',
      { path: '^packages/client/lib/' },
      { pathNot: '^packages/client/lib/' },
    ),
    forbid(
      'no-circle',
      'Files must not import each other in a circle.',
      { pathNot: '^lab/simulate/' },
      { circular: true },
    ),
    // What is in the simulated world knows the world, by its type.
    forbid(
      'no-circle',
      'Files must not import each other in a circle of code.',
      { path: '^lab/simulate/' },
      { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    ),
    forbid(
      'nothing-unresolvable',
      'Every import must resolve, or the other rules cannot check it.',
      // It loads what a test installs in a folder of its own.
      { pathNot: '^test/package/support/instrumented/' },
      // The package's own name leads to dist, which is there after a build only; the benchmark's peers to packages of its own; a recipe declares its own.
      {
        couldNotResolve: true,
        pathNot: [
          '^nestjs-idempotency(-client|/|$)',
          '^@(?:node-idempotency/nestjs|golevelup/nestjs-rabbitmq)$',
        ],
      },
    ),
    forbid(
      'cli-runs-when-it-is-loaded',
      'Start it as a process.',
      { pathNot: '^lib/' },
      { path: '^lib/cli/main' },
    ),
    forbid(
      'sample-app-uses-the-package',
      'It is written as its reader would write it.',
      { path: '^sample-app/' },
      { path: '^(lib|packages|test|lab|examples)/' },
    ),
    forbid(
      'sample-app-without-its-demo',
      'The demo starts the app, which is complete without it.',
      { path: '^sample-app/src/' },
      { path: '^sample-app/demo/' },
    ),
    forbid(
      'tests-use-entries-or-internals',
      'What tests take from inside the library stands in one place.',
      { path: '^(test|lab|examples)/', pathNot: '^test/support/internals/' },
      {
        path: '^(packages/client/)?lib/',
        pathNot: `^(lib/(${publicFiles.join('|')})|packages/client/lib/index\\.ts)$`,
      },
    ),
    forbid(
      'tests-without-the-lab',
      'They take the workers, the ledger and the oracle of lab/faults. A tool has its tests beside it.',
      {
        path: '^(test|examples)/',
        // The pages show what these tools measured.
        pathNot: [
          '^test/project/',
          '^test/(faults/messages/mutants|integration/postgres/support/janitor-load)',
          '^examples/migration/',
        ],
      },
      { path: '^lab/', pathNot: '^lab/faults/' },
    ),
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
