import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../project-root.js';
import { agentVersions } from '../agent-versions.js';
import { golevelupVersion } from '../golevelup-version.js';
import { nestVersions } from '../nest-versions.js';
import type { TextModule } from './option-texts.js';

const DOCS = 'docs/reference/tried-with.md';
const MARKERS = ['<!-- tried with: npm run texts -->', '<!-- end of tried with -->'] as const;

interface Manifest {
  readonly peerDependencies: Readonly<Record<string, string>>;
}

interface Lockfile {
  readonly packages: Readonly<
    Record<string, { readonly version: string; readonly name?: string } | undefined>
  >;
}

/** What is installed under an alias, or is tried in applications of its own. */
const OTHER_VERSIONS: Readonly<Record<string, readonly string[]>> = {
  bullmq: ['bullmq-5'],
  ioredis: ['ioredis-5', 'ioredis-5.4'],
};

/** What is not in the lockfile. */
const IN_APPLICATIONS: Readonly<Record<string, string>> = {
  '@golevelup/nestjs-rabbitmq': golevelupVersion,
  ...agentVersions,
};

/** A folder of tests, a package that they import, and what comes with it. */
const TRIED: readonly (readonly [folder: string, imported: string, ...others: string[]])[] = [
  ['test/contract', '@nestjs/platform-express', 'express'],
  ['test/contract', '@nestjs/platform-fastify', 'fastify', '@fastify/multipart'],
  ['test/e2e/http', '@fastify/compress'],
  ['test/e2e/http', 'compression'],
  ['test/support/http', 'serverless-http'],
  ['test/support/http', '@h4ad/serverless-adapter'],
  ['test/support/http', '@codegenie/serverless-express'],
  ['test/support/http', '@vendia/serverless-express'],
  ['test/support/http', '@fastify/aws-lambda'],
  ['test/support/http', 'node-mocks-http'],
  ['test/e2e/graphql', '@nestjs/apollo', '@apollo/server', 'graphql'],
  ['test/e2e/socket', '@nestjs/platform-socket.io'],
  ['test/e2e/socket', '@nestjs/platform-ws', 'ws'],
  ['test/e2e/messages', 'amqplib'],
  ['test/e2e/messages', 'kafkajs'],
  ['test/e2e/messages', '@nats-io/transport-node', 'mqtt'],
  ['test/e2e/bullmq', '@nestjs/bullmq'],
  ['test/e2e/calls', '@nestjs/cqrs'],
  ['test/e2e/calls', '@nestjs/schedule'],
  ['test/e2e/calls', '@nestjs/event-emitter'],
  ['test/e2e/decorators', 'nestjs-cls', '@nestjs-cls/transactional'],
  ['test/e2e/decorators', 'typeorm-transactional'],
  ['test/e2e/decorators', '@mikro-orm/core'],
  ['test/e2e/decorators', 'nestjs-otel'],
  ['test/integration/transactions', '@prisma/adapter-pg'],
  ['test/e2e/recipes/rate-limits', '@nestjs/throttler'],
  ['test/e2e/recipes/valkey', 'iovalkey'],
  ['test/e2e/recipes/clients', 'axios'],
  ['test/e2e/recipes/clients', 'ky'],
  ['test/e2e/recipes/clients', '@tanstack/query-core'],
  ['test/package', '@golevelup/nestjs-rabbitmq'],
  [
    'test/package',
    '@opentelemetry/instrumentation-ioredis',
    ...['@sentry/node', 'dd-trace', 'elastic-apm-node', 'newrelic'],
  ],
];

/** The page of all packages that the tests use as an application would, with their versions. */
export function triedWithTexts(): TextModule[] {
  const page = readFileSync(join(projectRoot, DOCS), 'utf8');
  const [before, , after] = page.split(new RegExp(MARKERS.join('|')));
  const { peerDependencies } = readJson('package.json') as Manifest;
  const { packages } = readJson('package-lock.json') as Lockfile;
  const versionOf = (name: string) => {
    const version = IN_APPLICATIONS[name] ?? packages[`node_modules/${name}`]?.version;
    if (version === undefined) throw new Error(`${name} is not installed.`);
    return version;
  };
  const versionsOf = (name: string) =>
    [name, ...(OTHER_VERSIONS[name] ?? [])].map(versionOf).join(', ');
  const nest = Object.keys(nestVersions);
  const peers = Object.entries(peerDependencies).map(([name, range]) => [
    `\`${name}\``,
    `\`${range.replaceAll('|', String.raw`\|`)}\``,
    versionsOf(name),
  ]);
  const others = TRIED.flatMap(([folder, imported, ...names]) => {
    if (!isImportedIn(folder, imported)) throw new Error(`${folder} does not import ${imported}.`);
    return [imported, ...names].map((name) => [
      `\`${name}\``,
      versionOf(name),
      `[${folder}](../../${folder})`,
    ]);
  });
  const parts = [
    `Nest: ${nest.join(', ')}, each on Express and Fastify ([the contract](contract.md)). Everything else on the versions below.`,
    table(['Peer dependency', 'Allowed', 'Tried'], peers),
    table(['Other package', 'Tried', 'Tests'], others),
  ];
  const body = `<!-- prettier-ignore-start -->\n\n${parts.join('\n\n')}\n\n<!-- prettier-ignore-end -->`;
  const source = `${before ?? ''}${MARKERS[0]}\n\n${body}\n\n${MARKERS[1]}${after ?? ''}`;
  return [{ path: DOCS, source }];
}

/** A row must not outlive the tests that it names. */
function isImportedIn(folder: string, name: string): boolean {
  const root = join(projectRoot, folder);
  return readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .some((file) => readFileSync(join(root, file), 'utf8').includes(`'${name}'`));
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(join(projectRoot, path), 'utf8'));
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n');
}
