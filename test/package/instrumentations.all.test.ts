import { copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { beforeAll, describe, expect, it, jest } from '@jest/globals';
import { agentVersions, nestVersions } from '../support/packages/versions.js';
import { installPackages } from '../support/packages/install-packages.js';
import { projectRoot } from '../support/project-root.js';
import { useRedis } from '../support/redis/use-redis.js';
import { useTarball } from './support/describe-consumers.js';
import { installNodes, type NodeVersion } from './support/node-versions.js';
import { runCommand } from './support/run-command.js';

jest.setTimeout(120_000);

const SOURCES = join(projectRoot, 'test/package/support/instrumented');
const {
  '@opentelemetry/instrumentation-ioredis': opentelemetry,
  '@sentry/node': sentry,
  'dd-trace': datadog,
  'elastic-apm-node': elastic,
  newrelic,
} = agentVersions;

interface Agent {
  readonly packages: Readonly<Record<string, string>>;
  /** What sees `import` in an ES module application, besides the agent. */
  readonly hook?: string;
}

const register = (loader: string) =>
  `data:text/javascript,import{register}from"node:module";register("${loader}","ROOT")`;

const OPENTELEMETRY: Agent = {
  packages: {
    '@opentelemetry/api': '1.9.1',
    '@opentelemetry/sdk-node': '0.223.0',
    '@opentelemetry/sdk-trace-base': '2.12.1',
    '@opentelemetry/instrumentation-ioredis': opentelemetry,
  },
  hook: register('@opentelemetry/instrumentation/hook.mjs'),
};
const DATADOG: Agent = {
  packages: { 'dd-trace': datadog, msgpackr: '2.1.3' },
  hook: 'dd-trace/register.js',
};
const NEWRELIC: Agent = { packages: { newrelic }, hook: 'newrelic/esm-loader.mjs' };
const SENTRY: Agent = { packages: { '@sentry/node': sentry } };
const ELASTIC: Agent = {
  packages: { 'elastic-apm-node': elastic },
  hook: register('elastic-apm-node/loader.mjs'),
};

interface Setting {
  readonly nest: '11.2.10' | '12.5.1';
  readonly ioredis: string;
  readonly node: NodeVersion;
  readonly agents: Readonly<Record<string, Agent>>;
}

const SETTINGS: readonly Setting[] = [
  {
    nest: '12.5.1',
    ioredis: '6.0.0',
    // newrelic needs 22 or later.
    node: 24,
    agents: {
      opentelemetry: OPENTELEMETRY,
      sentry: SENTRY,
      datadog: DATADOG,
      newrelic: NEWRELIC,
    },
  },
  {
    nest: '11.2.10',
    // Elastic's agent knows no other.
    ioredis: '5.11.1',
    node: 20,
    agents: { opentelemetry: OPENTELEMETRY, elastic: ELASTIC },
  },
];

const tarball = useTarball();
const redis = useRedis();
let nodes: ReadonlyMap<NodeVersion, string>;
beforeAll(async () => {
  const folder = join(tarball.folder, 'nodes');
  await mkdir(folder);
  nodes = await installNodes(folder);
}, 300_000);

describe.each(SETTINGS)('with Nest $nest, ioredis $ioredis on Node $node', (setting) => {
  const { nest, ioredis, node, agents } = setting;
  let folder: string;

  beforeAll(async () => {
    folder = join(tarball.folder, `nest-${nest}`);
    await mkdir(folder);
    const packages = Object.values(agents).map((agent) => agent.packages);
    const { '@nestjs/common': common, '@nestjs/core': core } = nestVersions[nest];
    await installPackages(folder, {
      type: 'commonjs',
      dependencies: {
        '@nestjs/common': common!,
        '@nestjs/core': core!,
        'reflect-metadata': '0.2.2',
        rxjs: '7.8.2',
        ioredis,
        'nestjs-idempotency': `file:${tarball.packed.tarball}`,
        ...(Object.assign({}, ...packages) as Record<string, string>),
      },
    });
    for (const file of ['agent.cjs', 'app.cjs', 'app.mjs']) {
      await copyFile(join(SOURCES, file), join(folder, file));
    }
  }, 300_000);

  const cases = Object.entries(agents).flatMap(([name, { hook }]) => [
    { name, app: 'app.cjs', hook: undefined },
    { name, app: 'app.mjs', hook },
  ]);

  it.each(cases)(
    '$name sees each command of the store as long as it took, in $app',
    async ({ name, app, hook }) => {
      const bin = nodes.get(node)!;
      const preloads = [
        hook?.replace('ROOT', pathToFileURL(`${folder}/`).href) ?? [],
        './agent.cjs',
      ];
      const args = [...preloads.flat().flatMap((file) => ['--import', file]), app];
      const env = { AGENT: name, REDIS_URL: redis.url, NODE_NO_WARNINGS: '1' };
      const output = await runCommand(join(bin, 'node'), args, { cwd: folder, bin, env });
      // The begin and the completion. A span that ends with the handler, or never, is longer than both together.
      expect(JSON.parse(output.trim().split('\n').at(-1)!)).toMatchObject({
        seen: [
          [expect.any(String), expect.any(Number)],
          [expect.any(String), expect.any(Number)],
        ],
        areTrue: true,
      });
    },
  );
});
