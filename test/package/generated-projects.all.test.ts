import { randomUUID } from 'node:crypto';
import { cp, mkdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { startPostgres } from '../support/postgres/postgres-server.js';
import { startRedis } from '../support/redis/redis-server.js';
import { SCAFFOLDS as SCAFFOLD_OPTIONS } from '../support/docs/tsconfigs.js';
import { START_HOOK_MS } from '../support/servers/start-server.js';
import { useServer } from '../support/servers/use-server.js';
import {
  esbuildCommonJs,
  esbuildModule,
  nestWebpack,
  webpackModule,
  type Bundler,
} from './support/bundlers.js';
import { useTarball } from './support/describe-consumers.js';
import { GeneratedProject } from './support/generated-project.js';
import {
  moduleWithStores,
  protectedApp,
  type GeneratedSources,
} from './support/generated-sources.js';
import { installNodes, NODE_VERSIONS, type NodeVersion } from './support/node-versions.js';
import { ResultsTable } from './support/results-table.js';
import { expectOnceEach } from './support/started-application.js';

jest.setTimeout(300_000);

interface Scaffold {
  readonly nest: 11 | 12;
  readonly runner: string;
  readonly js: '' | '.js';
  /** Further runners of the same tests. */
  readonly runners: readonly Runner[];
  /** Further arguments of `nest build`. */
  readonly builders: readonly string[];
  readonly bundlers: readonly Bundler[];
  /** What runners, builders and bundlers need besides the project's packages. */
  readonly tools: readonly string[];
}

interface Runner {
  readonly name: string;
  readonly config: object;
  readonly env?: NodeJS.ProcessEnv;
}

/** What configures the application for a store, by the store's name. */
type Stores = Readonly<Record<string, () => NodeJS.ProcessEnv | Promise<NodeJS.ProcessEnv>>>;

const SWC = {
  jsc: {
    target: 'es2022',
    parser: { syntax: 'typescript', decorators: true },
    transform: { legacyDecorator: true, decoratorMetadata: true },
  },
};

const SCAFFOLDS: readonly Scaffold[] = [
  {
    nest: 11,
    runner: 'its Jest (ts-jest, CommonJS)',
    js: '',
    runners: [
      {
        name: '@swc/jest',
        config: { transform: { '^.+\\.(t|j)s$': ['@swc/jest', SWC] } },
      },
    ],
    builders: ['--builder swc', '--webpack'],
    bundlers: [esbuildCommonJs, esbuildModule, nestWebpack],
    tools: ['@swc/cli', '@swc/core', '@swc/jest', 'esbuild'],
  },
  {
    nest: 12,
    runner: 'its Vitest',
    js: '.js',
    runners: [
      {
        name: 'Jest, ES modules',
        config: {
          extensionsToTreatAsEsm: ['.ts'],
          moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
          transform: { '^.+\\.ts$': ['@swc/jest', { ...SWC, module: { type: 'es6' } }] },
        },
        env: { NODE_OPTIONS: '--experimental-vm-modules' },
      },
    ],
    builders: ['--builder swc'],
    bundlers: [esbuildModule, webpackModule],
    tools: ['@swc/cli', '@swc/core', '@swc/jest', 'esbuild', 'jest', 'webpack', 'webpack-cli'],
  },
];

const tarball = useTarball({ declarations: true });
const table = new ResultsTable();
let nodes: ReadonlyMap<NodeVersion, string>;

beforeAll(async () => {
  nodes = await installNodes(tarball.folder);
});

afterAll(() => {
  process.stdout.write(`\n${table.toString()}\n\n`);
});

describe.each(SCAFFOLDS)('a new project of Nest $nest', (scaffold) => {
  const { nest, js } = scaffold;
  const sources = protectedApp(js);
  let project: GeneratedProject;

  beforeAll(async () => {
    project = await GeneratedProject.create(tarball.folder, nest);
    await project.install(tarball.packed.tarball);
    await project.write(sources);
  });

  /** The same on each Node, in a row of the table. */
  const onEachNode = (name: string, run: (bin: string) => Promise<void>) => {
    const row = table.add(`Nest ${String(nest)}, ${name}`);
    it.each(NODE_VERSIONS)(`${name}, on Node %i`, async (node) => {
      await row.note(node, () => run(nodes.get(node)!));
    });
  };

  /** One file of the whole application, started in an empty folder; with each of the stores. */
  const describeBundles = (stores: Stores) => {
    describe.each(scaffold.bundlers)('$name', ({ name, files, command, output }) => {
      const main = basename(output);
      let dir: string;

      beforeAll(async () => {
        await project.write(files);
        await project.run('npm', ['run', 'build']);
        const [program, ...args] = command;
        await project.run(program, args);
        dir = join(tarball.folder, randomUUID());
        await mkdir(dir);
        await cp(join(project.root, output), join(dir, main));
      });

      for (const [store, environment] of Object.entries(stores)) {
        onEachNode(`one file by ${name}, ${store}`, async (bin) => {
          await expectOnceEach({ dir, main, bin, env: await environment() });
        });
      }
    });
  };

  describe('as it was made', () => {
    it('has the options of the compiler with which the documentation is compiled', async () => {
      const { 'tsconfig.json': text = '' } = await project.read(['tsconfig.json']);
      const made = JSON.parse(text) as { readonly compilerOptions: object };
      const [, known] = Object.entries(SCAFFOLD_OPTIONS).find(([version]) =>
        version.startsWith(`${String(nest)}.`),
      )!;
      expect(made.compilerOptions).toEqual(known);
    });

    it('passes its lint, which finds nothing to fix', async () => {
      await project.run('npm', ['run', 'lint']);
      expect(await project.read(Object.keys(sources))).toEqual(sources);
    });

    onEachNode(scaffold.runner, async (bin) => {
      expect(passed(await project.run('npm', ['test'], bin))).toBe(testsIn(sources, '.spec.ts'));
      expect(passed(await project.run('npm', ['run', 'test:e2e'], bin))).toBe(
        testsIn(sources, '.e2e-spec.ts'),
      );
    });

    describe('built', () => {
      beforeAll(async () => {
        await project.run('npm', ['run', 'build']);
      });

      onEachNode('nest build', (bin) =>
        expectOnceEach({ dir: project.root, main: 'dist/main.js', bin }),
      );
    });
  });

  describe('with tools that a user installs', () => {
    beforeAll(async () => {
      await project.install('--save-dev', ...scaffold.tools);
    });

    describe.each(scaffold.runners)('$name', ({ name, config, env }) => {
      const shared = { testEnvironment: 'node', moduleFileExtensions: ['js', 'json', 'ts'] };
      const configs = {
        unit: { ...shared, ...config, rootDir: 'src', testRegex: '.*\\.spec\\.ts$' },
        e2e: { ...shared, ...config, rootDir: '.', testRegex: '.e2e-spec.ts$' },
      };

      beforeAll(async () => {
        await project.write({
          'jest.unit.json': JSON.stringify(configs.unit),
          'jest.e2e.json': JSON.stringify(configs.e2e),
        });
      });

      onEachNode(name, async (bin) => {
        const run = (config: string) => project.run('npx', ['jest', '--config', config], bin, env);
        expect(passed(await run('jest.unit.json'))).toBe(testsIn(sources, '.spec.ts'));
        expect(passed(await run('jest.e2e.json'))).toBe(testsIn(sources, '.e2e-spec.ts'));
      });
    });

    describe.each(scaffold.builders)('nest build %s', (args) => {
      beforeAll(async () => {
        await project.run('npx', ['nest', 'build', ...args.split(' ')]);
      });

      onEachNode(`nest build ${args}`, (bin) =>
        expectOnceEach({ dir: project.root, main: 'dist/main.js', bin }),
      );
    });

    describeBundles({ memoryStore: () => ({}) });
  });

  describe('with the drivers of its stores', () => {
    const redis = useServer(startRedis);
    const postgres = useServer(startPostgres);

    beforeAll(async () => {
      await project.install('ioredis', 'pg');
      await project.write(moduleWithStores(js));
    }, START_HOOK_MS);

    describeBundles({
      redisStore: () => ({ REDIS_URL: redis.url }),
      postgresStore: async () => ({ DATABASE_URL: await postgres.newDatabase() }),
    });
  });
});

/** The number of passed tests that a runner reports: Jest, or Vitest. */
function passed(log: string): number {
  return Number(/^\s*Tests:?\s+(\d+) passed/m.exec(log)?.[1]);
}

function testsIn(sources: GeneratedSources, ending: string): number {
  const texts = Object.entries(sources).filter(([path]) => path.endsWith(ending));
  return texts.join('').split(/^ +it\(/m).length - 1;
}
