import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { appendFile, cp, mkdtemp, readFile, realpath, rm, stat, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { SOURCES } from '../../support/packages/digest.js';
import { outsideEnvironment } from '../../support/processes/processes.js';
import { projectRoot } from '../../support/project-root.js';
import { START_HOOK_MS } from '../../support/servers/start-server.js';
import { until } from '../../support/waiting/until.js';

const COPIED = [
  ...SOURCES,
  'sample-app/src',
  'sample-app/demo',
  'sample-app/public',
  'test/support',
];
const PAGE = 'sample-app/public/page.css';

/** A checkout whose sample app nothing else builds. */
let checkout: string;
const builds = new Set<string>();
let npm: ChildProcess | undefined;
let output = '';

beforeAll(async () => {
  checkout = await mkdtemp(join(tmpdir(), 'idempotency-npm-start-'));
  await symlink(join(projectRoot, 'node_modules'), join(checkout, 'node_modules'));
  for (const name of COPIED) {
    await cp(join(projectRoot, name), join(checkout, name), { recursive: true });
  }
  await changePage();
}, START_HOOK_MS);

afterEach(async () => {
  if (npm?.pid === undefined) return;
  const closed = once(npm, 'close');
  // npm, its shell and the application.
  process.kill(-npm.pid, 'SIGKILL');
  await closed;
  npm = undefined;
});

afterAll(async () => {
  for (const build of builds) await rm(join(build, '../..'), { recursive: true });
  await rm(checkout, { recursive: true });
});

async function changePage(): Promise<void> {
  await appendFile(join(checkout, PAGE), `/* ${randomUUID()} */\n`);
}

/** @returns what it prints. */
async function build(): Promise<string> {
  const script = ['run', '--silent', 'build:sample'];
  const child = spawn('npm', script, { cwd: checkout, env: outsideEnvironment() });
  const [printed, [exitCode]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
  expect(exitCode).toBe(0);
  builds.add(await currentBuild());
  return printed;
}

const currentBuild = () => realpath(join(checkout, 'sample-app/dist'));

/** @returns the address of the API. */
async function start(settings: Readonly<Record<string, string>>): Promise<string> {
  output = '';
  npm = spawn('npm', ['start'], {
    cwd: checkout,
    env: {
      ...outsideEnvironment(),
      NO_COLOR: '1',
      PORT: '0',
      PROVIDER_DELAY_MS: '20',
      STORE: 'memory',
      ...settings,
    },
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  });
  npm.stdout!.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const address = () => /^Payments API on (\S+)/m.exec(output)?.[1];
  await until(() => address() !== undefined, 60_000);
  return address()!;
}

it('npm start builds what has changed, once, and leaves a running application its own build', async () => {
  expect(await build()).toMatch(/^Building/);
  const first = await currentBuild();
  const builtAt = async () => (await stat(join(first, 'src/main.js'))).mtimeMs;
  const firstBuiltAt = await builtAt();
  const url = await start({});
  const page = async () => (await fetch(`${url}/page/page.css`)).text();
  const served = await page();
  expect(served).toBe(await readFile(join(checkout, PAGE), 'utf8'));
  expect(await build()).toBe('');
  expect([await currentBuild(), await builtAt()]).toEqual([first, firstBuiltAt]);

  await changePage();
  expect(await build()).toMatch(/^Building/);
  const second = await currentBuild();
  expect(second).not.toBe(first);
  expect(await readFile(join(second, 'public/page.css'), 'utf8')).not.toBe(served);
  expect(await page()).toBe(served);
  expect(await builtAt()).toBe(firstBuiltAt);
}, 90_000);

/** What ConsoleSpanExporter has printed. */
const spans = () => output.match(/^\{\n[^]*?^\}$/gm) ?? [];

it('npm start with OTEL=console prints each span, and links a replay to the first execution', async () => {
  const url = await start({ OTEL: 'console' });
  const [key, description] = [randomUUID(), randomUUID()];
  const pay = async () => {
    const response = await fetch(`${url}/payments`, {
      method: 'POST',
      headers: {
        authorization: 'Bearer alice-demo-token',
        'idempotency-key': key,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ amount: 4999, currency: 'EUR', description }),
    });
    await response.arrayBuffer();
    return [response.status, response.headers.get('idempotent-replayed')];
  };
  expect(await pay()).toEqual([201, null]);
  expect(await pay()).toEqual([201, 'true']);
  await until(() => spans().length === 2);

  const [first = '', replay = ''] = spans();
  expect(first).toContain("'idempotency.result': 'executed'");
  expect(first).toContain('links: []');
  expect(replay).toContain("'idempotency.result': 'replayed'");
  expect(replay).toContain("'idempotency.link.type': 'first_execution'");
  const [, traceId, spanId] = /^ {2}traceId: '(\w+)',[^]*^ {2}id: '(\w+)',$/m.exec(first)!;
  const context = /context: \{\s*traceId: '(\w+)',\s*spanId: '(\w+)'/.exec(replay)!;
  expect(context.slice(1)).toEqual([traceId, spanId]);
  expect(replay).not.toContain(`\n  traceId: '${traceId!}'`);
  for (const secret of [key, description, 'alice']) expect(spans().join()).not.toContain(secret);
}, 90_000);
