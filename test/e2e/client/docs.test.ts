import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { inspect, promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { transform } from '@swc/core';
import { newIdempotencyKey } from 'nestjs-idempotency/client';
import { CLIENT_OPTIONS } from '../../support/internals/client.js';
import { projectRoot } from '../../support/project-root.js';
import { ScriptedServer } from '../../support/http/wire/scripted-server.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';
import { SamplePayments } from './sample-payments.js';

const run = promisify(execFile);

type Pay = (
  order: { id: string; amount: number; currency: string },
  token: string,
) => Promise<string>;

let page: string;
/** Inside the project, so that the package resolves its own name. */
let folder: string;
let api: SamplePayments;

beforeAll(async () => {
  page = await readFile(join(projectRoot, 'docs/guides/client.md'), 'utf8');
  folder = await mkdtemp(join(projectRoot, 'test/.tmp-client-'));
  api = await SamplePayments.start('fastify', 5);
});
afterAll(async () => {
  await api.stop();
  await rm(folder, { recursive: true, force: true });
});

/** The code under a heading of the page. */
function example(heading: string): string {
  const [, section = ''] = page.split(`\n## ${heading}\n`);
  const [, code = ''] = /```ts\n(.*?)```/s.exec(section) ?? [];
  return code;
}

async function chargesDuring(action: () => Promise<unknown>): Promise<number> {
  const before = (await api.charges()).length;
  await action();
  return (await api.charges()).length - before;
}

describe('the example for Node', () => {
  beforeAll(async () => {
    const { code } = await transform(example('In Node'), {
      jsc: { parser: { syntax: 'typescript' }, target: 'es2022' },
      module: { type: 'es6' },
    });
    await writeFile(join(folder, 'job.mjs'), code);
  });

  const job = (key: string) =>
    run(process.execPath, [...typescriptNodeOptions, join(folder, 'job.mjs')], {
      env: { ...process.env, NODE_OPTIONS: '', ORDER_KEY: key, API_URL: api.proxy.url },
    });

  it('pays once although a response is lost and the job is started again', async () => {
    const key = newIdempotencyKey();
    const charges = await chargesDuring(async () => {
      api.proxy.follow((exchange) => (exchange === 0 ? 'lose the answer' : 'none'));
      expect((await job(key)).stdout).toMatch(/^201 \{[^]*\} \{ replayed: true, tries: 2 \}\n$/);
      expect((await job(key)).stdout).toMatch(/^201 \{[^]*\} \{ replayed: true, tries: 1 \}\n$/);
    });
    expect(charges).toBe(1);
  });
});

describe('the example for browsers', () => {
  let pay: Pay;
  const shown = new Map<string, string>();
  const place = { href: '' };

  beforeAll(async () => {
    // Globals that a page has and Node does not.
    place.href = `${api.proxy.url}/checkout`;
    Object.assign(globalThis, {
      location: place,
      sessionStorage: {
        getItem: (name: string) => shown.get(name) ?? null,
        setItem: (name: string, value: string) => void shown.set(name, value),
        removeItem: (name: string) => void shown.delete(name),
      },
    });
    await writeFile(join(folder, 'page.ts'), example('In the browser'));
    ({ pay } = (await import(join(folder, 'page.ts'))) as { pay: Pay });
  });

  const order = (amount: number) => ({ id: newIdempotencyKey(), amount, currency: 'EUR' });
  const token = 'alice-demo-token';

  it('pays once although a response is lost and the page is reloaded', async () => {
    const bought = order(4_999);
    const charges = await chargesDuring(async () => {
      api.proxy.follow((exchange) => (exchange === 1 ? 'lose the answer' : 'none'));
      expect(await pay(bought, token)).toBe('Paid.');
      expect(await pay(bought, token)).toBe('Paid already.');
    });
    expect([charges, api.proxy.exchanges]).toEqual([1, 3]);
  });

  it('lets a declined customer try again', async () => {
    api.proxy.follow(() => 'none');
    const rejected = order(4_020);
    expect(await pay(rejected, token)).toBe('Not paid. Try another card.');
    expect(await pay({ ...rejected, amount: 4_021 }, token)).toBe('Paid.');
  });

  // For a status that is retried, the first pause exceeds the deadline of every call.
  const unpaid = { 'content-type': 'text/html', 'retry-after': '3600' };

  it.each([200, 302, 401, 403, 404, 408, 409, 413, 425, 429, 500, 501, 502, 503, 504, 520])(
    'keeps its key where a proxy responds with %i',
    async (status) => {
      const proxy = await ScriptedServer.start();
      const { href } = place;
      const bought = order(4_999);
      try {
        proxy.runSteps({ status, headers: unpaid, body: '<h1>No</h1>' });
        place.href = proxy.url;
        const reported = await pay(bought, token);
        expect(reported).toMatch(
          /^We do not know yet.* Press "Pay" again: you will not pay twice\.$/,
        );
        place.href = href;
        expect(await pay(bought, token)).toBe('Paid.');
        const [charge] = (await api.charges()).slice(-1);
        expect([charge?.amount, proxy.requests[0]?.headers['idempotency-key']]).toEqual([
          4_999,
          `"${shown.get(`payment of ${bought.id}`) ?? ''}"`,
        ]);
      } finally {
        place.href = href;
        await proxy.stop();
      }
    },
  );

  it('does not pay another amount with the key of the first payment', async () => {
    const bought = order(1_000);
    expect(await pay(bought, token)).toBe('Paid.');
    const charges = await chargesDuring(async () => {
      expect(await pay({ ...bought, amount: 2_000 }, token)).toMatch(/^Please ask us .* different/);
    });
    expect(charges).toBe(0);
  });
});

describe('the options', () => {
  const inWords: Readonly<Record<string, string>> = {
    key: 'a new random UUID',
    fetch: 'the global `fetch`',
    random: '`Math.random`',
  };
  const defaults = Object.entries(CLIENT_OPTIONS).map(([name, [value]]) => [
    name,
    inWords[name] ?? `\`${inspect(value)}\``,
  ]);

  it('are all listed in the table with their defaults', () => {
    const [, section = ''] = page.split('\n## Options\n');
    const [table = ''] = section.split('\n## ');
    const options = [...table.matchAll(/^\| `(\w+)` +\| (.*?) +\|/gm)].map(([, ...cells]) => cells);
    expect(options).toEqual(defaults);
  });

  it('have the same defaults in their doc comments', async () => {
    const source = await readFile(join(projectRoot, 'lib/client/options.ts'), 'utf8');
    const typed = [...source.matchAll(/@defaultValue (.+?)\s+\*\/\n +readonly (\w+)\?/g)];
    const plain = (reported = '') => reported.replaceAll('`', '');
    expect(typed.map(([, reported, name]) => [name, plain(reported)])).toEqual(
      defaults.map(([name, reported]) => [name, plain(reported)]),
    );
  });
});
