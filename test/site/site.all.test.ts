import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { findChromium, launchChromium } from '../support/browser/chromium.js';
import { headingsOf } from '../support/docs/documented-blocks.js';
import { outsideEnvironment } from '../support/processes/processes.js';
import { projectRoot } from '../support/project-root.js';
import { until } from '../support/waiting/until.js';

/** Two builds, and a browser on each page, on a busy machine. */
const TIMEOUT_MS = 3_000_000;
jest.setTimeout(TIMEOUT_MS);

const AXE = readFileSync(join(projectRoot, 'node_modules/axe-core/axe.min.js'), 'utf8');
const BASE = '/nestjs-idempotency/';
const PICTURES = join(tmpdir(), 'nestjs-idempotency-screenshots');
/** One keeps a core busy, and this process serves it from the other. */
const TABS = 2;

const env = outsideEnvironment();
const folder = mkdtempSync(join(tmpdir(), 'idempotency-site-'));
const clone = join(folder, 'clone');
const dist = join(clone, 'site/dist');

const git = (...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=test', '-c', 'user.email=test@localhost', ...args], {
    cwd: clone,
    env,
    encoding: 'utf8',
  });

/** What a clone of this checkout would have, with a released version whose documentation was one page. */
function makeClone(): void {
  mkdirSync(join(clone, 'docs'), { recursive: true });
  git('init', '--quiet');
  writeFileSync(join(clone, 'docs/README.md'), '# Then\n\n## Start\n\nThere was one page.\n');
  commit('then');
  git('tag', 'v0.0.9');
  const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '-z'], {
    cwd: projectRoot,
    encoding: 'utf8',
  });
  for (const file of files.split('\0')) {
    const source = join(projectRoot, file);
    if (file === '' || !existsSync(source)) continue;
    mkdirSync(dirname(join(clone, file)), { recursive: true });
    cpSync(source, join(clone, file));
  }
  commit('now');
  const modules = join(projectRoot, 'site/node_modules');
  if (!existsSync(modules)) {
    execFileSync('npm', ['ci', '--ignore-scripts'], { cwd: dirname(modules), env });
  }
  symlinkSync(modules, join(clone, 'site/node_modules'));
}

function commit(message: string): void {
  git('add', '--all');
  git('commit', '--quiet', '--message', message);
}

/** Where the kernel allows it, without a network. */
const OFFLINE = ['unshare', '--map-root-user', '--net'];
const isOffline = spawnSync(OFFLINE[0]!, [...OFFLINE.slice(1), 'true']).status === 0;

/** @throws with what the build said. */
function build(settings: Readonly<Record<string, string>> = {}): void {
  const command = [...(isOffline ? OFFLINE : []), 'npm', 'run', 'build'].join(' ');
  const options = {
    cwd: join(clone, 'site'),
    env: { ...env, ...settings },
    encoding: 'utf8',
  } as const;
  const { status, stdout, stderr } = spawnSync('sh', ['-c', command], options);
  if (status !== 0) throw new Error(`${stdout}\n${stderr}`);
}

const pagesOf = (root: string) =>
  readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.html') && !name.endsWith('404.html'))
    .sort();

const sources = readdirSync(join(projectRoot, 'docs'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.md') && !name.startsWith('reference/api/'))
  .map((name) => name.replace(/(^|\/)README\.md$/, '$1index.md'))
  .sort();

/** The first folder of a page: a test for each takes a minute or two, and can be run by itself. */
const folderOf = (name: string) => (name.includes('/') ? name.split('/')[0]! : 'the root');
const FOLDERS = [...new Set([...sources.map(folderOf), 'v'])];

/** A web server of static files, as they are published. */
async function serve(): Promise<Server> {
  const types: Record<string, string> = {
    html: 'text/html',
    js: 'text/javascript',
    css: 'text/css',
    svg: 'image/svg+xml',
  };
  const server = createServer(({ url = '' }, response) => {
    const path = decodeURIComponent(new URL(url, 'http://localhost').pathname);
    const file = join(dist, path.slice(BASE.length - 1), path.endsWith('/') ? 'index.html' : '');
    if (!path.startsWith(BASE) || !existsSync(file)) return void response.writeHead(404).end();
    const type = types[file.split('.').at(-1) ?? ''] ?? 'application/octet-stream';
    response.writeHead(200, { 'content-type': type }).end(readFileSync(file));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

interface Sought {
  readonly name: string;
  /** The ends of the links that lead to it. */
  readonly links: readonly string[];
}

/** The names in the first column of the tables of a page of the reference, and the sections that they stand in. */
function rowsOf(page: string): Sought[] {
  const text = readFileSync(join(projectRoot, 'docs/reference', page), 'utf8');
  const links = new Map<string, string[]>();
  const anchors = headingsOf(text).map(({ anchor }) => anchor);
  const sections = text
    .replace(/^```[^]*?^```$/gm, '')
    .split(/^#+ .+$/m)
    .slice(1);
  for (const [index, section] of sections.entries()) {
    for (const [, name] of section.matchAll(/^\| `([\w.]+)` +\|/gm)) {
      const link = `/reference/${page.replace(/\.md$/, '.html')}#${anchors[index]!}`;
      links.set(name!, [...(links.get(name!) ?? []), link]);
    }
  }
  return Array.from(links, ([name, ends]) => ({ name, links: ends }));
}

/** The codes of problems, and their pages. */
function problems(): Sought[] {
  const text = readFileSync(join(projectRoot, 'docs/reference/problems/README.md'), 'utf8');
  const rows = text.matchAll(/^\| \[.+?\]\((.+?)README\.md\) .*?`(idempotency_\w+)`/gm);
  return Array.from(rows, ([, page, name]) => ({
    name: name!,
    links: [`/reference/problems/${page!}`],
  }));
}

beforeAll(() => {
  makeClone();
  build();
});
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

describe('the site, built from a clone without a network', () => {
  it('has each page of docs, and each as Markdown in llms.txt', () => {
    const pages = pagesOf(dist).filter((name) => !name.startsWith('v/'));
    expect(pages).toEqual(sources.map((name) => name.replace(/\.md$/, '.html')).sort());
    const list = readFileSync(join(dist, 'llms.txt'), 'utf8');
    const listed = Array.from(list.matchAll(/\]\(https:\S+?\.io\/nestjs-idempotency\/(\S+)\)/g));
    expect(listed.map(([, name]) => name).sort()).toEqual(sources);
    expect(sources.filter((name) => !existsSync(join(dist, name)))).toEqual([]);
    expect(new Set(pagesOf(dist).map(folderOf))).toEqual(new Set(FOLDERS));
  });

  it('asks no other host for anything', () => {
    const texts = pagesOf(dist).map((name) => readFileSync(join(dist, name), 'utf8'));
    const asked = texts.flatMap(
      (text) => text.match(/<(?:script|img|link rel="(?:style|pre)[^>]*)[^>]*https?:[^>]*>/g) ?? [],
    );
    expect(asked).toEqual([]);
  });

  it('keeps each released minor version, whose pages name the newest as theirs', () => {
    const then = readFileSync(join(dist, 'v/0.0/index.html'), 'utf8');
    expect(then).toContain('There was one page.');
    expect(then).toContain('This is version 0.0.');
    expect(then).toContain(`rel="canonical" href="https://nestjs-idempotency.github.io${BASE}"`);
    expect(readFileSync(join(dist, 'index.html'), 'utf8')).toContain(`href="${BASE}v/0.0/"`);
  });

  it.each([
    ['a page', '[gone](gone.md)', /gone/],
    ['a heading', '[gone](README.md#gone)', /index\.html#gone/],
    ['a file of the repository', '[gone](../lib/gone.ts)', /lib\/gone\.ts/],
  ])('is not built where a link leads to %s that is gone', (_, link, complaint) => {
    const SITE_ROOT = mkdtempSync(join(folder, 'planted-'));
    mkdirSync(join(SITE_ROOT, 'docs'));
    const page = join(SITE_ROOT, 'docs/README.md');
    const text = '# Page\n\n## Start\n\n[Here](#start)\n';
    const settings = { SITE_ROOT, SITE_VERSION: '0.0', SITE_OUT: join(SITE_ROOT, 'dist') };
    writeFileSync(page, text);
    build(settings);
    writeFileSync(page, `${text}\n${link}\n`);
    expect(() => {
      build(settings);
    }).toThrow(complaint);
  });
});

const chromium = findChromium();
// If it is missing, `npm run test:all` has reported that: test/support/provision.
const describeInBrowser = chromium === undefined ? describe.skip : describe;

describeInBrowser('in a browser', () => {
  let server: Server;
  let browser: Browser;
  const urlOf = (path: string) =>
    `http://127.0.0.1:${String((server.address() as AddressInfo).port)}${BASE}${path}`;

  beforeAll(async () => {
    server = await serve();
    browser = await launchChromium(chromium!);
  });
  afterAll(async () => {
    await browser.close();
    server.close();
  });

  /** Runs `look` on each item, in several tabs. */
  async function inTabs<Item>(
    items: readonly Item[],
    look: (page: Page, item: Item) => Promise<void>,
  ) {
    const left = [...items];
    const tabs = Array.from({ length: TABS }, async () => {
      const context = await browser.newContext({ bypassCSP: true });
      const page = await context.newPage();
      for (let item = left.shift(); item !== undefined; item = left.shift()) await look(page, item);
      await context.close();
    });
    await Promise.all(tabs);
  }

  // The colours, which cost most to change, change once.
  const APPEARANCES = (['light', 'dark'] as const).flatMap((colorScheme) =>
    [320, 1280].map((width) => ({ width, colorScheme })),
  );

  async function appear(page: Page, { width, colorScheme }: (typeof APPEARANCES)[number]) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    const isDark = String(colorScheme === 'dark');
    const isShown = `document.documentElement.classList.contains('dark') === ${isDark}`;
    await page.waitForFunction(isShown, undefined, { timeout: TIMEOUT_MS });
  }

  /** What the scheme of colours can break. */
  const OF_COLOURS = { type: 'rule', values: ['color-contrast', 'link-in-text-block'] };

  interface Violation {
    readonly id: string;
    readonly nodes: readonly string[];
  }

  /** What axe finds, and how much wider the page is than its window. In the dark, only colours are other ones. */
  async function faultsOf(page: Page, colorScheme = 'light'): Promise<string[]> {
    const context = page.url().endsWith('/index.html') ? 'document' : `{ exclude: ['.VPSidebar'] }`;
    const options = {
      resultTypes: ['violations'],
      // Each style sheet would be fetched once more, for what no page has: sound, and a locked orientation.
      preload: false,
      ...(colorScheme === 'dark' && { runOnly: OF_COLOURS }),
    };
    const { found, over } = await page.evaluate<{ found: Violation[]; over: number }>(
      `axe.run(${context}, ${JSON.stringify(options)}).then(({ violations }) => ({
        found: violations.map(({ id, nodes }) => ({ id, nodes: nodes.map(({ html }) => html) })),
        over: document.documentElement.scrollWidth - window.innerWidth,
      }))`,
    );
    return [
      ...found.map(({ id, nodes }) => `${id}: ${nodes.join('\n')}`),
      ...(over > 0 ? [`${String(over)} px wider than the window`] : []),
    ];
  }

  it.each(FOLDERS)(
    'has no violation of axe and fits, at 320 and 1280 px, light and dark, on each page of %s',
    async (folderOfPages) => {
      const faults: string[] = [];
      const pages = pagesOf(dist).filter((name) => folderOf(name) === folderOfPages);
      mkdirSync(PICTURES, { recursive: true });
      await inTabs(pages, async (page, name) => {
        await page.goto(urlOf(name));
        await page.evaluate(AXE);
        for (const appearance of APPEARANCES) {
          await appear(page, appearance);
          const { width, colorScheme } = appearance;
          const at = `${name}, ${String(width)} px, ${colorScheme}`;
          faults.push(...(await faultsOf(page, colorScheme)).map((fault) => `${at}: ${fault}`));
          if (!/^(?:index|reference\/options|guides\/payments)\.html$/.test(name)) continue;
          const picture = `site-${name.replace(/\W/g, '-')}-${String(width)}-${colorScheme}.png`;
          await page.screenshot({ path: join(PICTURES, picture) });
        }
      });
      expect(pages.length).toBeGreaterThan(0);
      expect(faults).toEqual([]);
    },
  );

  it('notices a page that breaks a rule, or is too wide', async () => {
    await inTabs(['index.html'], async (page, name) => {
      await page.goto(urlOf(name));
      await page.evaluate(AXE);
      await page.setViewportSize({ width: 320, height: 800 });
      await page.evaluate(`
        document.querySelector('.first-screen img').removeAttribute('alt');
        document.querySelector('.first-screen h1').style.width = '400px';`);
      const faults = (await faultsOf(page)).join('\n');
      expect(faults).toContain('image-alt: ');
      expect(faults).toContain(' px wider than the window');
    });
  });

  it.each([
    { what: 'option', sought: rowsOf('options.md') },
    { what: 'event', sought: rowsOf('events.md') },
    { what: 'problem', sought: problems() },
  ])('finds each $what', async ({ sought }) => {
    expect(sought.length).toBeGreaterThan(10);
    const missed: string[] = [];
    await inTabs(sought, async (page, { name, links }) => {
      const results = page.locator('#localsearch-list a');
      const input = page.locator('#localsearch-input');
      if (page.url() === 'about:blank') {
        await page.goto(urlOf('index.html'));
        // The page listens to its keys once its script runs.
        await until(async () => {
          await page.keyboard.press('Control+k');
          return input.isVisible();
        }, 30_000);
      } else {
        await input.fill('');
        await until(async () => (await results.count()) === 0);
      }
      await input.fill(name);
      const isFound = async () => {
        const shown = (await results.evaluateAll((all) =>
          all.map((link) => (link as any).href),
        )) as string[];
        return shown.some((href) => links.some((link) => href.includes(link)));
      };
      await until(isFound, 15_000).catch(() => missed.push(name));
    });
    expect(missed).toEqual([]);
  });
});
