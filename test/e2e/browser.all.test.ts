import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { ApiProcess } from '../../sample-app/demo/processes/api-process.js';
import { builtPackage } from '../support/packages/built-package.js';
import { findChromium, launchChromium } from '../support/browser/chromium.js';
import { type Fault, FaultProxy } from '../support/http/wire/fault-proxy.js';
import { typescriptNodeOptions } from '../support/typescript/node-options.js';
import { useServer } from '../support/servers/use-server.js';

/** One response as the page shows it: the verdict, and each fact by name. */
type Shown = Readonly<Record<string, string>>;

const chromium = findChromium();
// If it is missing, `npm test` has reported that: test/support/provision.
const describeInBrowser = chromium === undefined ? describe.skip : describe;

/** `npm test` covers the double click, the lost response and the headers; `npm run test:all` covers everything. */
const platforms = ['express', 'fastify'] as const;

describeInBrowser.each(platforms)('in a browser, on %s', (platform) => {
  let browser: Browser;
  /** One page for all tests, each of which reloads it: cheaper than a page each. */
  let page: Page;
  /** A page of another origin. */
  let shop: Server;
  let api: ApiProcess;

  beforeAll(async () => {
    browser = await launchChromium(chromium!);
    page = await browser.newPage();
    shop = await serve((_, response) => {
      response.setHeader('content-type', 'text/html').end('<!doctype html><title>Shop</title>');
    });
    const settings = {
      STORE: 'memory',
      PLATFORM: platform,
      PROVIDER_DELAY_MS: '50',
      BUILT_PACKAGE: await builtPackage(),
    };
    api = new ApiProcess({ ...settings, CORS_ORIGIN: urlOf(shop) }, typescriptNodeOptions);
    await api.untilListening();
  });
  afterAll(async () => {
    await browser.close();
    await api.kill();
    await stop(shop);
  });

  /** Counts charges per user while `action` runs. It asks the API directly, not the page. */
  async function chargesDuring(action: () => Promise<unknown>) {
    const { charges: before } = await ledger();
    await action();
    const { charges } = await ledger();
    return { alice: charges.alice - before.alice, bob: charges.bob - before.bob };
  }

  async function ledger() {
    const counted = await fetch(`${api.url}/ledger`);
    return counted.json() as Promise<{ charges: { alice: number; bob: number } }>;
  }

  describe('the page of the sample app', () => {
    const proxy = useServer(() => FaultProxy.start(Number(new URL(api.url).port)));
    let complaints: string[] = [];

    beforeAll(async () => {
      page.on('pageerror', (error) => complaints.push(error.message));
      page.on('console', (message) => {
        // The page exists to show 409, 422 and lost responses, which Chromium logs as errors.
        const isAResponse = message.text().startsWith('Failed to load resource');
        if (message.type() === 'error' && !isAResponse) complaints.push(message.text());
      });
      // The page's other requests, which a timer may send, are no exchanges of the proxy: its plans count the payments.
      await page.route(/\/(activity|ledger|demo\/events)\b/, (route) => {
        const { pathname, search } = new URL(route.request().url());
        return route.continue({ url: api.url + pathname + search });
      });
    });

    beforeEach(async () => {
      proxy.follow(() => 'none');
      complaints = [];
      await page.goto(proxy.url);
      await page.locator('#alice:not(:empty)').waitFor();
    });
    afterEach(() => expect(complaints).toEqual([]));

    const button = (name: string) => page.getByRole('button', { name, exact: true });
    const press = (name: string) => button(name).click();
    /** The responses on the page, oldest first, once there are `count`. */
    async function responses(count: number): Promise<Shown[]> {
      const responded = page
        .locator('#responses > li')
        .filter({ has: page.locator('.note:not(:empty)') });
      await responded.nth(count - 1).waitFor();
      const shown = await responded.evaluateAll((items: any[]) =>
        items.map((item) => ({
          verdict: item.querySelector('strong').textContent,
          ...Object.fromEntries(
            [...item.querySelectorAll('dl > div')].map((fact) => [
              fact.firstChild.textContent,
              fact.lastChild.textContent,
            ]),
          ),
        })),
      );
      return shown.reverse() as Shown[];
    }

    /** One request executed; the others were conflicts or replays. */
    function expectOneExecution(shown: readonly Shown[]) {
      const others = shown.filter(({ verdict }) => verdict !== 'first');
      expect(others).toHaveLength(shown.length - 1);
      for (const { verdict } of others) expect(['conflict', 'replay']).toContain(verdict);
    }

    it('charges once for a double click', async () => {
      const charges = await chargesDuring(async () => {
        await button('Pay').dblclick();
        expectOneExecution(await responses(2));
      });
      expect(charges).toEqual({ alice: 1, bob: 0 });
    });

    const faults: readonly Fault[] = ['lose the answer', 'unavailable'];

    it('gets a lost response without user action when the client retries', async () => {
      const charges = await chargesDuring(async () => {
        // Chromium itself resends a request that broke on a used connection, but not after a response.
        proxy.follow((exchange) => faults[exchange] ?? 'none');
        await press('Pay with retries');
        await page.locator('#responses > .replay').waitFor();
        expect((await responses(2)).slice(-2)).toMatchObject([
          { verdict: 'failed', Status: '503' },
          { verdict: 'replay', Status: '201' },
        ]);
      });
      expect(charges).toEqual({ alice: 1, bob: 0 });
    });

    it('says why it has no faults while the API runs alone', async () => {
      await page.getByText('These three need two processes').waitFor();
      expect(await button('Kill the process in the middle of it').isDisabled()).toBe(true);
    });

    it("shows a charge, its replay, a mismatch, and another customer's own charge", async () => {
      const { charges: before } = await ledger();
      for (const [index, name] of ['Pay', 'Pay', 'Pay 1 EUR more'].entries()) {
        await press(name);
        await responses(index + 1);
      }
      await page.getByLabel('Bob').check();
      await press('Pay');

      const none = { 'Idempotent-Replayed': 'none' };
      expect(await responses(4)).toEqual([
        { verdict: 'first', Status: '201', ...none },
        { verdict: 'replay', Status: '201', 'Idempotent-Replayed': 'true' },
        { verdict: 'mismatch', Status: '422', ...none },
        { verdict: 'first', Status: '201', ...none },
      ]);
      const { charges } = await ledger();
      expect(charges).toEqual({ alice: before.alice + 1, bob: before.bob + 1 });
      // Of this order alone.
      expect(await page.locator('output').allInnerTexts()).toEqual([
        expect.any(String),
        '1',
        '1',
        '0',
      ]);
    });

    it('shows a conflict, and when to retry, while the first request is in progress', async () => {
      await page.getByLabel('Amount').selectOption('9999');
      await button('Pay').dblclick();
      expect(await responses(1)).toMatchObject([
        { verdict: 'conflict', Status: '409', 'Idempotent-Replayed': 'none', 'Retry-After': '1' },
      ]);
      expect(await page.locator('li strong', { hasText: 'under way' }).count()).toBe(1);
    });
  });

  describe('a page of another origin', () => {
    /** Everything that a script on that page can read. */
    async function seenFrom(origin: string, url: string) {
      await page.goto(origin);
      return page.evaluate(`(async () => {
        const url = '${url}';
        const { idempotentFetch, newIdempotencyKey } = await import(url + '/client/index.js');
        const init = (amount) => ({
          method: 'POST',
          headers: { authorization: 'Bearer alice-demo-token', 'content-type': 'application/json' },
          body: JSON.stringify({ amount, currency: 'EUR' }),
        });
        const pay = async (amount, key) => {
          const { headers, ...rest } = init(amount);
          const answer = await fetch(url + '/payments', { ...rest, headers: { ...headers, 'idempotency-key': key } });
          return [answer.status, answer.headers.get('idempotent-replayed'), answer.headers.get('retry-after')];
        };
        const [done, hanging] = [newIdempotencyKey(), newIdempotencyKey()];
        return {
          first: await pay(4999, done),
          replay: await pay(4999, done),
          client: (await idempotentFetch(url + '/payments', init(4999), { key: done })).replayed,
          conflict: await Promise.race([pay(9999, hanging), pay(9999, hanging)]),
        };
      })()`);
    }

    it('reads the replay header and Retry-After when the API exposes them', async () => {
      expect(await seenFrom(urlOf(shop), api.url)).toEqual({
        first: [201, null, null],
        replay: [201, 'true', null],
        client: true,
        conflict: [409, null, '1'],
      });
    });

    it('reads nothing when CORS_ORIGIN does not name its origin', async () => {
      const other = await serve((_, response) => response.end('Another shop'));
      try {
        await expect(seenFrom(urlOf(other), api.url)).rejects.toThrow('Failed to fetch');
      } finally {
        await stop(other);
      }
    });
  });
});

async function serve(listener: RequestListener): Promise<Server> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

async function stop(server: Server): Promise<void> {
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
}

function urlOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
