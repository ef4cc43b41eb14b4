import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  jest,
} from '@jest/globals';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { LedgerFile } from '../../../sample-app/demo/ledger-file.js';
import { ApiProcess } from '../../../sample-app/demo/processes/api-process.js';
import { findChromium, launchChromium } from '../../support/browser/chromium.js';
import { builtSample } from '../../support/packages/built-sample.js';
import { projectRoot } from '../../support/project-root.js';
import { START_HOOK_MS } from '../../support/servers/start-server.js';
import { until } from '../../support/waiting/until.js';

const AXE = join(projectRoot, 'node_modules/axe-core/axe.min.js');

/** With PICTURES=docs/pictures the documentation gets its screenshots. */
const PICTURES = process.env.PICTURES ?? join(tmpdir(), 'nestjs-idempotency-screenshots');

/** Lease, retries and the start of a process, on a busy machine. */
const TAKEOVER_MS = 60_000;
// A test may wait for several of them.
jest.setTimeout(3 * TAKEOVER_MS);

/** What `npm start` runs. */
async function startDemo(settings: Readonly<Record<string, string>>): Promise<ApiProcess> {
  const demo = new ApiProcess(settings, [], [join(await builtSample(), 'demo/page/main.js')]);
  await demo.untilListening();
  return demo;
}

const chromium = findChromium();
// If it is missing, `npm run test:all` has reported that: test/support/provision.
const describeInBrowser = chromium === undefined ? describe.skip : describe;

describeInBrowser('the page of npm start', () => {
  let folder: string;
  let ledger: LedgerFile;
  let demo: ApiProcess | undefined;
  let browser: Browser | undefined;
  let context: BrowserContext;
  let page: Page;
  let complaints: string[];

  beforeAll(async () => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), 'idempotency-page-')));
    const file = join(folder, 'ledger.jsonl');
    writeFileSync(file, '');
    ledger = new LedgerFile(file);
    demo = await startDemo({
      LEDGER_FILE: file,
      PROVIDER_DELAY_MS: '400',
      LEASE: '1500ms',
      MAX_EXECUTION: '5s',
      // A busy machine makes PostgreSQL slow. What is shown does not depend on it.
      COMMAND_TIMEOUT: '2s',
      SAVE_TIMEOUT: '4s',
      STORE_AWAY_MS: '25000',
    });
    browser = await launchChromium(chromium!);
  }, START_HOOK_MS);
  afterAll(async () => {
    await browser?.close();
    await demo?.close();
    rmSync(folder, { recursive: true });
  }, START_HOOK_MS);

  beforeEach(async () => {
    complaints = [];
    context = await browser!.newContext({ permissions: ['clipboard-read', 'clipboard-write'] });
    page = await context.newPage();
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('console', (message) => {
      // The page exists to show 409, 422, 503 and lost responses, which Chromium logs as errors.
      const isAResponse = message.text().startsWith('Failed to load resource');
      if (message.type() === 'error' && !isAResponse) complaints.push(message.text());
    });
    await page.goto(demo!.url);
    await untilBothRun();
  });
  afterEach(async () => {
    await context.close();
    expect(complaints).toEqual([]);
  });

  const button = (name: string) => page.getByRole('button', { name, exact: true });
  const press = (name: string) => button(name).click();
  const text = (selector: string) => page.locator(selector).innerText();
  /** From the oldest on; a card counts for each of its equal answers. */
  const verdicts = async () => {
    const cards = await page.locator('#responses > li').evaluateAll((items) =>
      items.map((item: any): { verdict: string; count: number } => ({
        verdict: item.querySelector('strong').textContent,
        count: Number(item.dataset.count ?? 1),
      })),
    );
    return cards.reverse().flatMap(({ verdict, count }) => Array<string>(count).fill(verdict));
  };
  const lanes = () => page.locator('#axis > li').allInnerTexts();
  const untilBothRun = () =>
    until(async () => (await text('#processes')).match(/runs/g)?.length === 2, TAKEOVER_MS);
  const untilNoneIsPending = (requests: number) =>
    until(async () => {
      const shown = await verdicts();
      return shown.length >= requests && !shown.includes('under way');
    }, TAKEOVER_MS);

  /** How often this order was charged, by the ledger's file, not by the page. */
  async function charges(): Promise<number> {
    const order = `Order ${(await text('#key')).slice(0, 8)}`;
    return ledger.charges().filter(({ description }) => description === order).length;
  }

  it('charges once for ten copies at once, and shows each on the time axis', async () => {
    await press('Ten copies at once');
    await untilNoneIsPending(10);
    expect(await charges()).toBe(1);
    expect(await text('#alice')).toBe('1');
    const shown = await verdicts();
    const count = (wanted: string) => shown.filter((verdict) => verdict === wanted).length;
    expect(count('first')).toBe(1);
    expect(count('conflict') + count('replay')).toBe(9);
    expect(await text('#counts')).toMatch(/^requests\s+10\s/);
    await until(async () => (await lanes()).length === 11);
    const [execution, ...requests] = await lanes();
    expect(execution).toMatch(
      /^Execution 1, process [AB]\s+at \d+\.\d+ s, \d+\.\d+ s, outcome stored$/,
    );
    expect(requests.join('\n').match(/201 first$/gm)).toHaveLength(1);
  });

  it('replays the response that was lost on the way', async () => {
    await press('Lose the response on the way');
    await untilNoneIsPending(2);
    expect(await verdicts()).toEqual(['lost', 'replay']);
    expect(await charges()).toBe(1);
    // The operation ran once, in the request whose response was lost.
    expect((await lanes()).filter((lane) => lane.startsWith('Execution'))).toHaveLength(1);
  });

  it('kills the process after the charge, and charges once', async () => {
    const pids = async () => (await text('#processes')).match(/(?<=pid )\d+/g)!;
    const before = await pids();
    await press('Kill the process in the middle of it');
    await until(async () => (await charges()) === 1, TAKEOVER_MS);
    await until(async () => (await verdicts()).at(-1) === 'first', TAKEOVER_MS);
    expect((await verdicts())[0]).toBe('lost');
    expect(await charges()).toBe(1);
    const executions = (await lanes()).filter((lane) => lane.startsWith('Execution'));
    expect(executions).toEqual([
      expect.stringMatching(/^Execution 1, process [AB]\s.*process killed$/s),
      expect.stringMatching(/^Execution 2, process [AB], takeover\s.*outcome stored$/s),
    ]);
    await until(async () => /^takeovers\s+[1-9]/m.test(await text('#activity')));
    await untilBothRun();
    const after = await pids();
    expect(after.filter((pid) => before.includes(pid))).toHaveLength(1);

    await press('Pay');
    await until(async () => (await verdicts()).at(-1) === 'replay');
    expect(await charges()).toBe(1);
  });

  it('charges nothing while the store is away, and once when it is back', async () => {
    await press('Take the store away');
    await button('Give the store back').waitFor();
    await press('Pay');
    await untilNoneIsPending(1);
    expect(await verdicts()).toEqual(['rejected']);
    expect(await page.locator('#responses dd').first().innerText()).toBe('503');
    expect(await charges()).toBe(0);
    expect(await text('#alice')).toBe('0');

    await press('Give the store back');
    await button('Take the store away').waitFor();
    await press('Pay with retries');
    await until(async () => (await verdicts()).at(-1) === 'first', TAKEOVER_MS);
    expect(await charges()).toBe(1);
  });

  it('gives the store back by itself, and shows eleven equal answers as one card', async () => {
    await press('Take the store away');
    await button('Give the store back').waitFor();
    expect(await text('#processes')).toMatch(/Store\s+away until \d\d:\d\d:\d\d/);
    await press('Pay');
    await press('Ten copies at once');
    await untilNoneIsPending(11);
    const cards = await page.locator('#responses > li > p:first-child').allInnerTexts();
    expect(cards).toEqual([expect.stringMatching(/^rejected × 11 \d+\. /)]);
    expect(await charges()).toBe(0);
    await button('Take the store away').waitFor({ timeout: TAKEOVER_MS });
    await press('Pay with retries');
    await until(async () => (await verdicts()).at(-1) === 'first', TAKEOVER_MS);
    expect(await charges()).toBe(1);
  });

  it('offers a new order where there is nothing to kill', async () => {
    await press('Pay');
    await untilNoneIsPending(1);
    const paid = await text('#key');
    await press('Kill the process in the middle of it');
    await button('New order, and kill its process').waitFor();
    expect([await verdicts(), await text('#key')]).toEqual([['first'], paid]);
    await page.keyboard.press('Enter');
    await until(async () => (await verdicts()).at(-1) === 'first', TAKEOVER_MS);
    expect((await verdicts())[0]).toBe('lost');
    expect(await text('#key')).not.toBe(paid);
    expect(await charges()).toBe(1);
    expect(await button('New order, and kill its process').isVisible()).toBe(false);
    await untilBothRun();
  });

  it('shows on a phone, where the finger is, what the answer was', async () => {
    await page.setViewportSize({ width: 360, height: 640 });
    const latest = page.locator('#latest');
    await press('Pay');
    await latest.getByText('first', { exact: true }).waitFor();
    await press('Lose the response on the way');
    await latest.getByText('replay', { exact: true }).waitFor({ timeout: TAKEOVER_MS });
    const seen = await latest.evaluate((element: any) => element.getBoundingClientRect().toJSON());
    expect([seen.top > 0, seen.bottom <= 640]).toEqual([true, true]);
    const [answers, processes] = await Promise.all(
      ['#responses', '#processes'].map((selector) => page.locator(selector).boundingBox()),
    );
    expect(answers!.y).toBeLessThan(processes!.y);
  });

  it(
    'shows itself in a tour, and ends it where the user stops',
    async () => {
      const told = () => text('#tour-text');
      await press('Show me, in a minute');
      const sentences = new Set<string>();
      await until(async () => {
        sentences.add(await told());
        return (await told()).startsWith('That was all');
      }, 3 * TAKEOVER_MS);
      for (let step = 1; step <= 6; step += 1)
        expect([...sentences]).toContainEqual(expect.stringMatching(`^${String(step)} of 6\\. `));
      expect(await verdicts()).toEqual(['rejected']);
      const twice = ledger.charges().map(({ description }) => description);
      expect(twice).toHaveLength(new Set(twice).size);

      await button('Take the store away').waitFor({ timeout: TAKEOVER_MS });
      await press('Show me, in a minute');
      await press('Stop');
      expect(await told()).toBe('');
      await untilNoneIsPending(1);
    },
    5 * TAKEOVER_MS,
  );

  it('shows the numbers of the meter over both processes', async () => {
    /** Those of the page; 0 before it has read them. */
    const numbers = async () => {
      const pairs = (await text('#activity')).matchAll(/^([a-z ]+)\s+(\d+)$/gm);
      const shown = new Map(Array.from(pairs, ([, name, count]) => [name, Number(count)] as const));
      return (name: string) => shown.get(name) ?? 0;
    };
    await until(async () => /^takeovers/m.test(await text('#activity')));
    const before = await numbers();
    await press('Ten copies at once');
    await untilNoneIsPending(10);
    await until(async () => {
      const after = await numbers();
      const added = (name: string) => after(name) - before(name);
      return added('executed') === 1 && added('in progress') + added('replayed') === 9;
    });

    await page.locator('#amount').selectOption('9999');
    for (let order = 1; order <= 4; order += 1) {
      await press('New order');
      await press('Pay');
    }
    await until(async () => (await numbers())('running') === 4);
    await until(async () => (await numbers())('running') === 0, TAKEOVER_MS);
    expect((await numbers())('executed')).toBe(before('executed') + 5);
  });

  it('counts each order by itself', async () => {
    for (const order of ['first', 'second']) {
      await press('Pay');
      await untilNoneIsPending(1);
      expect([order, await charges(), await text('#alice')]).toEqual([order, 1, '1']);
      await press('New order');
      expect(await text('#counts')).toMatch(/^requests\s+0$/);
      expect(await lanes()).toEqual([]);
    }
  });

  it('shows the exchange as it was, and copies a curl that gets the replay', async () => {
    await press('Pay');
    await untilNoneIsPending(1);
    await page.getByText('Request, response and curl').click();
    const [request, response] = await page.locator('#responses pre').allInnerTexts();
    const key = await text('#key');
    expect(request).toContain(`POST /payments\n`);
    expect(request).toContain(`idempotency-key: ${key}\n`);
    expect(response).toMatch(/^201 Created\n/);
    await press('Copy curl');
    await button('Copied').waitFor();
    const curl = String(await page.evaluate('navigator.clipboard.readText()'));
    const output = execFileSync('sh', ['-c', `${curl} --silent`], { encoding: 'utf8' });
    expect(output).toMatch(/^HTTP\/1\.1 201 Created\r\n/);
    expect(output).toMatch(/^idempotent-replayed: true\r$/im);
    expect(output.split('\r\n\r\n').at(-1)).toBe(response!.split('\n\n').at(-1));
    expect(await charges()).toBe(1);
  });

  it('is used with the keyboard alone', async () => {
    /** Goes on with Tab until the element has the focus. */
    const focus = async (name: string) => {
      for (let tabs = 0; tabs < 60; tabs += 1) {
        const focused = await page.evaluate('document.activeElement.textContent.trim()');
        if (focused === name) return;
        await page.keyboard.press('Tab');
      }
      throw new Error(`No Tab leads to ${name}`);
    };
    for (const name of ['Pay', 'Ten copies at once', 'Lose the response on the way']) {
      await focus(name);
      await page.keyboard.press('Enter');
    }
    await focus('Take the store away');
    await untilNoneIsPending(12);
    await page.keyboard.press('Space');
    await button('Give the store back').waitFor();
    await page.keyboard.press('Space');
    await button('Take the store away').waitFor();
    await focus('Request, response and curl');
    await page.keyboard.press('Enter');
    await focus('Copy curl');
    await page.keyboard.press('Enter');
    await button('Copied').waitFor();
    expect(await charges()).toBe(1);
  });

  /** The rules of axe that the page breaks as it is. */
  async function violations(): Promise<string[]> {
    await page.evaluate(readFileSync(AXE, 'utf8'));
    const found = await page.evaluate('axe.run().then(({ violations }) => violations)');
    return (found as any[]).map(({ id, nodes }) => `${id}: ${nodes.map((node: any) => node.html)}`);
  }

  it('is seen by axe when it breaks a rule', async () => {
    await page.evaluate(`document.querySelector('[for=amount]').remove()`);
    expect(await violations()).toEqual([expect.stringMatching(/^select-name: /)]);
  });

  it.each([
    { width: 320, colorScheme: 'dark' },
    { width: 768, colorScheme: 'light' },
    { width: 1280, colorScheme: 'light' },
  ] as const)(
    'fits into $width px, $colorScheme, without a violation of axe',
    async (appearance) => {
      const { width, colorScheme } = appearance;
      await page.setViewportSize({ width, height: 800 });
      await page.emulateMedia({ colorScheme });
      expect(await violations()).toEqual([]);

      await press('Kill the process in the middle of it');
      await until(async () => (await verdicts()).at(-1) === 'first', TAKEOVER_MS);
      await press('Pay');
      await press('Pay 1 EUR more');
      await until(async () => (await verdicts()).at(-1) === 'mismatch');
      await page.getByText('Request, response and curl').first().click();
      await untilBothRun();
      expect(await violations()).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
      expect(await charges()).toBe(1);
      await page.getByText('Request, response and curl').first().click();
      await page.locator('h1').click();
      const path = join(PICTURES, `sample-app-${width}-${colorScheme}.png`);
      await page.screenshot({ path, fullPage: true });
    },
  );
});

it(
  'npm start leaves neither processes nor files behind',
  async () => {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), 'idempotency-page-')));
    // As root, the server runs as another user, who needs access.
    chmodSync(folder, 0o755);
    try {
      const demo = await startDemo({ TMPDIR: folder });
      await demo.close();
      expect(readdirSync(folder)).toEqual([]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
  START_HOOK_MS,
);
