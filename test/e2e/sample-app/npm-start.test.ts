import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { cp, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { builtPackage } from '../../support/packages/built-package.js';
import { outsideEnvironment } from '../../support/processes/outside-environment.js';
import { projectRoot } from '../../support/project-root.js';
import { compileTree } from '../../support/typescript/to-javascript.js';
import { until } from '../../support/waiting/until.js';

/** What `npm run build:all` makes; `npm start` runs it. */
let built: string;
let npm: ChildProcess | undefined;
let output = '';

beforeEach(async () => {
  built = await mkdtemp(join(tmpdir(), 'idempotency-npm-start-'));
  const sample = join(projectRoot, 'sample-app');
  await Promise.all([
    cp(join(projectRoot, 'package.json'), join(built, 'package.json')),
    symlink(join(projectRoot, 'node_modules'), join(built, 'node_modules')),
    symlink(join(await builtPackage(), 'dist'), join(built, 'dist')),
    compileTree(join(sample, 'src'), join(built, 'sample-app/dist/src')),
    cp(join(sample, 'public'), join(built, 'sample-app/dist/public'), { recursive: true }),
  ]);
});

afterEach(async () => {
  if (npm?.pid !== undefined) {
    const closed = once(npm, 'close');
    // npm, its shell and the application.
    process.kill(-npm.pid, 'SIGKILL');
    await closed;
  }
  await rm(built, { recursive: true });
});

/** @returns the address of the API. */
async function start(settings: Readonly<Record<string, string>>): Promise<string> {
  npm = spawn('npm', ['start', '--ignore-scripts'], {
    cwd: built,
    env: {
      ...outsideEnvironment(),
      NO_COLOR: '1',
      PORT: '0',
      PROVIDER_DELAY_MS: '20',
      ...settings,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  });
  npm.stdout!.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const address = () => /^Payments API on (\S+)/m.exec(output)?.[1];
  await until(() => address() !== undefined, 60_000);
  return address()!;
}

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
});
