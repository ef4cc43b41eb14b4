import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { findChromium, launchChromium } from '../../support/browser/chromium.js';
import { abandon, LEASE_MS } from '../../support/engine/abandon.js';
import { projectRoot } from '../../support/project-root.js';
import { START_HOOK_MS } from '../../support/servers/start-server.js';
import { ConsoleApp } from './console-app.js';

const AXE = readFileSync(join(projectRoot, 'node_modules/axe-core/axe.min.js'), 'utf8');

/** With PICTURES=docs/pictures the documentation gets its screenshots. */
const PICTURES = process.env.PICTURES;

const MAY = 'read release complete reopen redact retain delete even_if_running bulk';

const chromium = findChromium();
// If it is missing, `npm run test:all` has reported that: test/support/provision.
const describeInBrowser = chromium === undefined ? describe.skip : describe;

describeInBrowser('The console in a browser', () => {
  let app: ConsoleApp;
  let browser: Browser | undefined;
  let context: BrowserContext;
  let page: Page;
  let complaints: string[];

  beforeAll(async () => {
    app = await ConsoleApp.start({ platform: 'express' });
    browser = await launchChromium(chromium!);
  }, START_HOOK_MS);
  afterAll(async () => {
    await browser?.close();
    await app.close();
  }, START_HOOK_MS);

  beforeEach(async () => {
    complaints = [];
    await open({});
  });
  afterEach(async () => {
    await context.close();
    expect(complaints).toEqual([]);
  });

  /** Who the operator is stands in headers, as behind a proxy that authenticates. */
  async function open(options: Parameters<Browser['newContext']>[0]): Promise<void> {
    context = await browser!.newContext({
      extraHTTPHeaders: { 'x-admin': 'yes', 'x-may': MAY },
      ...options,
    });
    page = await context.newPage();
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('console', (message) => {
      // Violations of the content security policy are among them. An act that is refused is a page, with 409.
      const isAResponse = message.text().includes('status of 409');
      if (message.type() === 'error' && !isAResponse) complaints.push(message.text());
    });
  }

  /** The rules of axe that the page breaks as it is: run beside the page, whose policy lets no script in. */
  async function violations(): Promise<string[]> {
    await page.evaluate(AXE);
    const found = await page.evaluate('axe.run().then(({ violations }) => violations)');
    return (found as any[]).map(({ id, nodes }) => `${id}: ${nodes.map((node: any) => node.html)}`);
  }

  async function settle(summary: string, reason: string): Promise<void> {
    await page.getByText(summary, { exact: true }).first().click();
    const form = page.locator('details[open] form');
    await form.getByLabel('Why, for the audit').fill(reason);
    await form.getByRole('button').click();
  }

  it('settles an abandoned record, without JavaScript', async () => {
    await context.close();
    await open({ javaScriptEnabled: false });
    const recordKey = await app.abandoned();
    await page.goto(app.url);
    await page.getByRole('link', { name: 'Abandoned' }).click();
    await page.getByRole('link', { name: recordKey }).click();
    await settle('Complete', 'the provider has it');
    expect(await page.locator('h1').innerText()).toBe('Complete: done');
    expect(await app.stored(recordKey)).toMatchObject({ state: 'completed' });
    await page.getByRole('link', { name: 'Audit' }).click();
    expect(await page.locator('main').innerText()).toContain(recordKey);
  });

  it('settles an unknown outcome from the key of a client, by the pages that the guide names', async () => {
    await context.close();
    await open({ javaScriptEnabled: false });
    const picture = async (name: string) => {
      if (PICTURES === undefined) return;
      await page.screenshot({ path: join(PICTURES, `settling-${name}.png`), fullPage: true });
    };
    const { key, lease } = await abandon(app.store, 'settle');
    app.pass(LEASE_MS);
    await page.goto(app.url);
    await page.getByRole('link', { name: 'Find' }).click();
    await page.getByLabel('Idempotency key').fill(key);
    await page.getByLabel('Caller').fill('alice');
    await page.getByRole('combobox').fill('settle');
    await picture('1-find');
    await page.getByRole('button', { name: 'Find' }).click();
    await picture('2-found');
    await page.getByRole('link', { name: lease.recordKey }).click();
    expect(await page.locator('main').innerText()).toContain('ended 0 ms ago without an outcome');
    await picture('3-record');
    await settle('Complete', 'charge ch_42 is at the provider');
    expect(await page.locator('h1').innerText()).toBe('Complete: done');
    await picture('4-done');
    const shown = await page.content();
    expect(shown).not.toContain(key);
    let ran = 0;
    const retry = app.calls.run({ operation: 'settle', key, scope: 'alice' }, () => (ran += 1));
    await expect(retry).rejects.toMatchObject({ code: 'idempotency_response_not_kept' });
    expect(ran).toBe(0);
  });

  it('settles several abandoned records, without JavaScript', async () => {
    await context.close();
    await open({ javaScriptEnabled: false });
    const keys = [await app.abandoned(), await app.abandoned()];
    await page.goto(`${app.url}/abandoned`);
    await page.getByRole('link', { name: 'Choose all' }).click();
    await page.getByLabel('Why, for the audit').fill('the provider was away');
    await page.getByRole('button', { name: 'Complete those chosen' }).click();
    expect(await page.locator('h1').innerText()).toMatch(/^Complete: (\d+) of \1 done$/);
    for (const key of keys) expect(await app.stored(key)).toMatchObject({ state: 'completed' });
  });

  it('sends forms from where no Sec-Fetch-Site is, with the Origin that its policy leaves', async () => {
    // Chromium sends Sec-Fetch-Site to trustworthy places alone: the machine's own, and https.
    const recordKey = await app.abandoned();
    let origin: string | undefined;
    await page.route('**/complete', async (route) => {
      const headers = await route.request().allHeaders();
      origin = headers.origin;
      delete headers['sec-fetch-site'];
      await route.continue({ headers });
    });
    await page.goto(`${app.url}/records/${recordKey}`);
    await settle('Complete', 'the provider has it');
    expect(await page.locator('h1').innerText()).toBe('Complete: done');
    expect(origin).toBe(new URL(app.url).origin);
  });

  it('does nothing for a page of another site that posts its form', async () => {
    const recordKey = await app.abandoned();
    const { expected } = (await app.records.explain(recordKey))!;
    const before = await app.stored(recordKey);
    await page.route('http://evil.example/', (route) =>
      route.fulfill({
        contentType: 'text/html',
        body: `<form method="post" action="${app.url}/records/${recordKey}/complete">
          <input name="state" value="${expected.state}"><input name="fence" value="${expected.fence}">
          <input name="reason" value="as I say"><button>Win</button></form>`,
      }),
    );
    await page.goto('http://evil.example/');
    const [response] = await Promise.all([
      page.waitForResponse('**/complete'),
      page.getByRole('button').click(),
    ]);
    expect(response.status()).toBe(403);
    expect(await app.stored(recordKey)).toEqual(before);
    complaints = complaints.filter((text) => !text.includes('status of 403'));
  });

  it('is used with the keyboard alone', async () => {
    const recordKey = await app.abandoned();
    await page.goto(`${app.url}/records/${recordKey}`);
    await page.keyboard.press('Tab');
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to the page');
    await page.keyboard.press('Enter');
    const focus = async (selector: string) => {
      for (let tabs = 0; tabs < 40; tabs += 1) {
        if (await page.evaluate(`document.activeElement.matches(${JSON.stringify(selector)})`))
          return;
        await page.keyboard.press('Tab');
      }
      throw new Error(`No Tab leads to ${selector}`);
    };
    await focus('details:nth-of-type(2) summary');
    await page.keyboard.press('Enter');
    await focus('#complete-reason');
    await page.keyboard.type('the provider has it');
    await page.keyboard.press('Enter');
    await page.locator('[role=status]').waitFor();
    expect(await app.stored(recordKey)).toMatchObject({ state: 'completed' });
  });

  it('is seen by axe when it breaks a rule', async () => {
    await page.goto(`${app.url}/find`);
    await page.evaluate(`document.querySelector('[for=key]').remove()`);
    expect(await violations()).toEqual([expect.stringMatching(/^label: /)]);
  });

  it('is told when a page breaks its policy', async () => {
    await page.goto(`${app.url}/now`);
    await page.evaluate(`document.body.setAttribute('style', 'color: red')`);
    await page.evaluate(`document.body.innerHTML += '<p style="color: red">red</p>'`);
    expect(complaints.join()).toContain('Content Security Policy');
    complaints = [];
  });

  const APPEARANCES = (['light', 'dark'] as const).flatMap((colorScheme) =>
    [320, 1280].map((width) => ({ colorScheme, width })),
  );

  it.each(APPEARANCES)(
    'fits into $width px, $colorScheme, without a violation of axe or of its policy',
    async ({ colorScheme, width }) => {
      await page.setViewportSize({ width, height: 800 });
      await page.emulateMedia({ colorScheme });
      await app.calls.run({ operation: 'payments.create', key: 'k', scope: 'alice' }, () => 'paid');
      const completed = await app.completed();
      const abandoned = await app.abandoned();
      const { lease: running } = await abandon(app.store, 'settle');
      const paths = ['now', 'find', 'abandoned', 'audit', 'nothing'].map((path) => `/${path}`);
      const records = [abandoned, completed, running.recordKey].map((key) => `/records/${key}`);
      for (const path of [...paths, ...records]) {
        const response = await page.goto(app.url + path);
        expect([path, response!.status()]).toEqual([path, path === '/nothing' ? 404 : 200]);
        if (path === '/nothing') continue;
        for (const details of await page.locator('details').all()) {
          await details.locator('summary').click();
        }
        expect([path, await violations()]).toEqual([path, []]);
        expect([path, await page.evaluate('document.documentElement.scrollWidth')]).toEqual([
          path,
          width,
        ]);
        if (
          PICTURES !== undefined &&
          path.endsWith(abandoned) &&
          (width === 320) === (colorScheme === 'dark')
        ) {
          const file = join(PICTURES, `console-${String(width)}-${colorScheme}.png`);
          await page.screenshot({ path: file, fullPage: true });
        }
      }
      await page.goto(`${app.url}/find`);
      await page.getByLabel('Idempotency key').fill('k');
      await page.getByLabel('Caller').fill('alice');
      await page.getByRole('combobox').fill('payments.create');
      await page.getByRole('button').click();
      expect(await page.locator('main').innerText()).toContain('completed');
      expect(await violations()).toEqual([]);
      await page.goto(`${app.url}/records/${abandoned}`);
      await settle('Complete', 'the provider has it');
      expect(await violations()).toEqual([]);
      complaints = complaints.filter((text) => !text.includes('status of 404'));
    },
  );
});
