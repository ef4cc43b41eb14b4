import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { inspect, promisify } from 'node:util';
import {
  type ArgumentsHost,
  Catch,
  Controller,
  type ExceptionFilter,
  HttpException,
  Post,
} from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  idempotentFetch,
  type IdempotentFetchOptions,
  newIdempotencyKey,
} from 'nestjs-idempotency-client';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { transform } from '@swc/core';
import { CLIENT_OPTIONS } from '../../support/internals/client.js';
import { projectRoot } from '../../support/project-root.js';
import { ScriptedServer } from '../../support/http/wire/scripted-server.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';
import { fetchWithoutStreams } from '../../support/http/wire/fetch-without-streams.js';
import type { Reply } from '../../support/http/reply.js';
import { InScenario, Scenario, SCENARIO_HEADER } from '../../support/http/scenario.js';
import { startApp } from '../../support/http/start-app.js';
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

  it.each([200, 403, 503])('keeps its key where a proxy responds with %i', async (status) => {
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
  });

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
    const source = await readFile(join(projectRoot, 'packages/client/lib/options.ts'), 'utf8');
    const typed = [...source.matchAll(/@defaultValue (.+?)\s+\*\/\n +readonly (\w+)\?/g)];
    const plain = (reported = '') => reported.replaceAll('`', '');
    expect(typed.map(([, reported, name]) => [name, plain(reported)])).toEqual(
      defaults.map(([name, reported]) => [name, plain(reported)]),
    );
  });
});

it('a call that has reached its deadline is completed by a later call with its key', async () => {
  const charges = await chargesDuring(async () => {
    api.proxy.follow(() => 'answer nothing');
    const first = api.pay(3_000, { deadline: 400 });
    const error = await first.catch((reason: unknown) => reason as { code: string; key: string });
    expect(error).toMatchObject({ code: 'idempotency_fetch_deadline', tries: 1 });

    api.proxy.follow(() => 'none');
    const { key } = error as { key: string };
    expect(await api.pay(3_000, { key })).toMatchObject({
      replayed: true,
      payment: { amount: 3_000 },
    });
  });
  expect(charges).toBe(1);
});

@Controller()
class PaymentsController {
  @Post('payments')
  @Idempotent()
  async pay(@InScenario() scenario: Scenario) {
    return { paid: await scenario.run() };
  }
}

/** As in many applications: own members and a few of the error's, sent as `application/json`. */
@Catch(HttpException)
class OwnErrorsFilter implements ExceptionFilter {
  catch(error: HttpException, host: ArgumentsHost): void {
    const { code } = error.getResponse() as { readonly code?: string };
    const reply = host.switchToHttp().getResponse<Reply>().status(error.getStatus());
    reply.send({ code, statusCode: error.getStatus(), timestamp: new Date().toISOString() });
  }
}

/** Each kind of document on a platform of its own, with a fetch of its own. */
const apis = [
  ['its own exception filter', 'express', [new OwnErrorsFilter()], 'application/json', fetch],
  [
    'the documents of the library, read without streams',
    'fastify',
    [],
    'application/problem+json',
    fetchWithoutStreams(),
  ],
] as const;

describe('an API with', () => {
  it.each(apis)(
    '%s makes a second click wait for the first, and rejects another amount',
    async (_, platform, filters, type, sent) => {
      const app = await startApp({
        platform,
        store: memoryStore(),
        controllers: [PaymentsController],
        configure: (nest) => nest.useGlobalFilters(...filters),
      });
      try {
        const scenario = app.scenario();
        const types: (string | null)[] = [];
        const observed: IdempotentFetchOptions['fetch'] = async (input, init) => {
          const response = await sent(input, init);
          if (response.status === 409) types.push(response.headers.get('content-type'));
          // The first click finishes only after the second got 409.
          if (types.length > 0) scenario.gate.open();
          return response;
        };
        const click = (options: IdempotentFetchOptions = {}, amount = 4_999) =>
          idempotentFetch(
            `http://127.0.0.1:${String(app.port)}/payments`,
            {
              method: 'POST',
              headers: {
                authorization: 'Bearer alice',
                'content-type': 'application/json',
                [SCENARIO_HEADER]: scenario.id,
              },
              body: JSON.stringify({ amount }),
            },
            { key: scenario.key, fetch: sent, ...options },
          );
        scenario.gate.close();
        const first = click();
        await scenario.started.reached(1);
        const second = await click({ fetch: observed });
        expect(types[0]).toBe(`${type}; charset=utf-8`);
        expect([second.response.status, second.replayed]).toEqual([201, true]);
        expect(await second.response.json()).toEqual(await (await first).response.json());
        await expect(click({}, 5_999)).rejects.toMatchObject({
          name: 'IdempotencyProblemError',
          code: 'idempotency_key_reused',
          retryable: false,
        });
        expect(scenario.executions).toBe(1);
      } finally {
        await app.close();
      }
    },
  );
});
