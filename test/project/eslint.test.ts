import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { lintConfig, lintFindings } from '../support/planted/lint-planted-tree.js';
import { plant, type Finding, type Tree } from '../support/planted/planted-tree.js';

const loading = (text: string) =>
  `export const load = async (name: string): Promise<unknown> => {\n  ${text}\n};\n`;
const inTry = (text: string) => `try {\n    ${text}\n  } catch {\n    return name;\n  }`;
const expecting = (what: string) => `import { expect } from '@jest/globals';
export const check = (started: number, elapsedMs: number) => [started, elapsedMs, expect(${what})];
`;
const testing = (call: string) => `import { ${/^\w+/.exec(call)![0]} } from '@jest/globals';
${call}('a', () => undefined);
`;
const injecting = (importOfLedger: string) => `import { Injectable } from './injectable.js';
${importOfLedger}

@Injectable()
export class Service {
  constructor(readonly ledger: Ledger) {}
}
`;

/** For each rule that the project wrote or configured by itself, code that it has to find. */
const findings: Readonly<Record<string, readonly string[]>> = {
  'local/injected-class-is-a-value': [
    injecting("import type { Ledger } from './ledger.js';"),
    injecting("import { type Ledger } from './ledger.js';"),
  ],
  'no-restricted-imports': ["export { createRequire } from 'node:module';\n"],
  'no-restricted-globals': ['__dirname', '__filename', 'require'].map(
    (name) => `export const used = (): unknown => ${name};\n`,
  ),
  'no-restricted-properties': ['export const end = (): void => process.exit(1);\n'],
  'no-restricted-syntax': [
    'export const folder: unknown = import.meta.url;\n',
    loading("return [name, await import('node:net')];"),
    loading(inTry('return await import(name);')),
    "export type { Redis } from 'ioredis';\n",
    "import type { Redis } from 'ioredis';\nexport type Client = Redis;\n",
    loading(inTry("return [name, await import('ioredis')];")),
    "export const names: readonly string[] = ['ioredis'];\n",
    "import type { createClient } from 'redis';\nexport type Create = typeof createClient;\n",
    loading(inTry("return [name, await import('redis')];")),
    'export const isIoredisClient = (client: unknown): boolean => client !== undefined;\n',
    'export function end(stop: () => void): void {\n  try {\n    stop();\n  } catch {\n    // It has ended.\n  }\n}\n',
  ],
};

const timed = (expression: string) => `export const read = (): unknown => ${expression};\n`;

/** Each way past the clock of an engine. */
const findingsInCore: Readonly<Record<string, readonly string[]>> = {
  'no-restricted-globals': [
    'setTimeout(() => undefined, 1)',
    'setInterval(() => undefined, 1)',
    'setImmediate(() => undefined)',
    'clearTimeout(undefined)',
    'clearInterval(undefined)',
    'clearImmediate(undefined)',
    'queueMicrotask(() => undefined)',
    'performance.now()',
    'crypto.randomUUID()',
  ].map(timed),
  'no-restricted-properties': [
    ...['Date.now()', 'Math.random()', 'process.hrtime.bigint()', 'process.uptime()'],
    'process.nextTick(() => undefined)',
    'AbortSignal.timeout(1)',
    'globalThis.setTimeout(() => undefined, 1)',
    'globalThis.performance.now()',
  ].map(timed),
  'no-restricted-imports': [
    "export { randomUUID } from 'node:crypto';\n",
    "import * as crypto from 'node:crypto';\nexport const bytes = crypto.randomBytes(1);\n",
    "export { setImmediate } from 'node:timers';\n",
    "export { setTimeout } from 'node:timers/promises';\n",
    "export { performance } from 'node:perf_hooks';\n",
    "export { nextTick } from 'node:process';\n",
    "export { timer } from 'rxjs';\n",
  ],
  'no-restricted-syntax': [
    timed('new Date()'),
    "import { nodeClock } from './util/clock.js';\nexport const read = (): number => nodeClock.now();\n",
  ],
};

/** The same where else an engine's clock counts. */
const findingsWithoutClock: Tree = {
  'lib/transports/pause.ts': timed('Math.random()'),
  'lib/stores/memory/expire.ts': timed('Date.now()'),
  'lib/nest/idempotency-reconciler.ts': timed('Date.now()'),
  'lib/transports/http/response/raw-recorder.ts': timed('Date.now()'),
  'lib/transports/http/response/fastify-recorder.ts': timed('Date.now()'),
};

/** The same for rules that tests have of their own. */
const findingsInTests: Readonly<Record<string, readonly string[]>> = {
  'no-restricted-syntax': [
    expecting('performance.now() - started).toBeLessThan(1_000'),
    expecting('elapsedMs).toBeLessThanOrEqual(1_000'),
    expecting('1_000).toBeGreaterThan(Date.now() - started'),
    "import { beforeAll } from '@jest/globals';\nbeforeAll(() => startRedis());\ndeclare function startRedis(): void;\n",
    ...['it.only', "it['only']", 'it.concurrent.only.each([])', 'describe.only'].map(testing),
    ...['fit', 'fdescribe'].map(testing),
  ],
};

/** What looks like it, and is none; and what the others import. */
const sound: Tree = {
  'lib/injectable.ts': 'export const Injectable = (): ClassDecorator => () => undefined;\n',
  'lib/ledger.ts': 'export class Ledger {\n  readonly charges = 0;\n}\n',
  'lib/injected.ts': injecting("import { Ledger } from './ledger.js';"),
  'lib/guarded.ts': loading(inTry("return await import('node:net');")),
  'lib/own.ts': loading("return [name, await import('./guarded.js')];"),
  'lib/core/util/clock.ts':
    'export interface Clock {\n  now(): number;\n}\nexport const nodeClock: Clock = { now: () => Date.now() };\n',
  'lib/core/default-clock.ts':
    "import { nodeClock, type Clock } from './util/clock.js';\n\nexport class Timed {\n  constructor(readonly clock: Clock = nodeClock) {}\n}\n",
  'lib/core/hashed.ts': "export { hash } from 'node:crypto';\n",
  'lib/transports/http/response/stream.ts':
    'export const at = (ms: number): Date => new Date(ms);\n',
  'lib/stores/redis/wait.ts': timed('Date.now()'),
  'lib/stores/redis/ioredis/client.ts': loading(inTry("return [name, await import('ioredis')];")),
  'lib/stores/redis/node-redis/client.ts': loading(inTry("return [name, await import('redis')];")),
  'lib/stores/redis/system.ts': "export const system = 'redis';\n",
  'lib/cli/servers/redis-servers.ts': loading(inTry("return [name, await import('ioredis')];")),
  'lib/stores/redis/text.ts': "export const text = 'It is an option of ioredis.';\n",
  'test/all.test.ts': testing('it.concurrent'),
  'test/at-least.test.ts': expecting('performance.now() - started).toBeGreaterThan(1_000'),
};

const folders = [
  { folder: 'lib', rules: findings, end: '.ts' },
  { folder: 'lib/core', rules: findingsInCore, end: '.ts' },
  { folder: 'test', rules: findingsInTests, end: '.test.ts' },
];

const linted = folders.flatMap(({ folder, rules, end }) =>
  Object.entries(rules).flatMap(([rule, codes]) =>
    codes.map((code, index) => ({
      rule,
      code,
      file: `${folder}/${rule.replace(/\W+/g, '-')}-${index}${end}`,
    })),
  ),
);

let tree: Awaited<ReturnType<typeof plant>>;
beforeAll(async () => {
  const planted = linted.map(({ file, code }) => [file, code] as const);
  tree = await plant({ ...sound, ...findingsWithoutClock, ...Object.fromEntries(planted) });
});
afterAll(() => tree.remove());

describe('ESLint', () => {
  let found: Finding[];
  beforeAll(async () => {
    const files = [
      ...linted.map(({ file }) => file),
      ...Object.keys(findingsWithoutClock),
      ...Object.keys(sound),
    ];
    found = await lintFindings(tree.root, files);
  }, 60_000);
  const about = (file: string) => found.filter((finding) => finding.file === file);

  it.each(linted)('$rule finds $file', ({ rule, file }) => {
    expect(about(file).map((finding) => finding.rule)).toContain(rule);
  });

  it.each(Object.keys(findingsWithoutClock))('finds what passes by the clock in %s', (file) => {
    const message = expect.stringContaining('lib/core/util/clock.ts');
    expect(about(file)).toEqual([expect.objectContaining({ message })]);
  });

  it.each(Object.keys(sound))('has nothing to say of %s', (file) => {
    expect(about(file)).toEqual([]);
  });

  /** What the project's own parts of the configuration forbid; `what` is one option of a list of them. */
  const forbidden = lintConfig
    .filter(({ name }) => !name?.includes(' > '))
    .flatMap(({ rules }) => Object.entries(rules ?? {}))
    .filter(([, setting]) => setting !== 'off')
    .flatMap(([rule, setting]) => {
      const [, ...options] = rule.startsWith('no-restricted-') ? [setting].flat() : [];
      return (options.length === 0 ? [''] : options).map((what) => ({ rule, what }));
    });

  it.each(forbidden.filter(({ what }) => what !== ''))('finds $rule: $what', ({ rule, what }) => {
    const { message, property } = what as { message?: string; property?: string };
    const said = expect.stringContaining(message ?? property ?? (what as string));
    expect(found).toContainEqual(expect.objectContaining({ rule, message: said }));
  });
});
