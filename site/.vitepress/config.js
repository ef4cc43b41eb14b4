import { existsSync } from 'node:fs';
import { join, posix, relative } from 'node:path';
import { defineConfig } from 'vitepress';
import { checkLinks } from '../links.js';
import { navigationOf } from '../navigation.js';
import { writeTexts } from '../texts.js';
import { ADDRESS, BASE, publishedIn, REPOSITORY, ROOT } from '../settings.js';

/** The checkout whose `docs` are shown: this one, or that of an older version. */
const root = process.env.SITE_ROOT ?? ROOT;
const docs = join(root, 'docs');
/** `0.1` for what stands in `/v/0.1/`; none for the newest. */
const version = process.env.SITE_VERSION;
const base = version === undefined ? BASE : `${BASE}v/${version}/`;
const title = 'nestjs-idempotency';
const description =
  'Idempotency for NestJS: an operation runs once, and every retry gets the first outcome.';
const isPage = (file) =>
  // The reports of API Extractor are for who changes an entry: links lead to the repository.
  /^docs\/(?!reference\/api\/).*\.md$/.test(file);
/** A folder's README on GitHub is its index here. */
const pageOf = (file) => file.replace(/(^|\/)README\.md$/, '$1index.md');

/** `docs` has no node_modules above it. */
const vueOfThisPackage = {
  name: 'vue of this package',
  enforce: 'pre',
  resolveId(id, _, { ssr }) {
    if (!/^vue(?:\/server-renderer)?$/.test(id)) return undefined;
    const importer = join(ROOT, 'site/package.json');
    return ssr ? { id, external: true } : this.resolve(id, importer, { skipSelf: true });
  },
};

export default defineConfig({
  srcDir: docs,
  outDir: process.env.SITE_OUT ?? join(ROOT, 'site/dist'),
  cacheDir: join(ROOT, 'site/node_modules/.cache/vitepress'),
  srcExclude: ['reference/api/**'],
  rewrites: pageOf,
  base,
  lang: 'en',
  title,
  description,
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  transformHead({ page }) {
    // An older version's page names the newest as the one to be found.
    const path = page.replace(/(^|\/)index\.md$/, '$1').replace(/\.md$/, '.html');
    return [['link', { rel: 'canonical', href: `${ADDRESS}${path}` }]];
  },
  markdown: {
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    anchor: { slugify: slugOf },
    // Before VitePress makes its own links of them.
    preConfig(md) {
      md.core.ruler.push('links', ({ env, tokens }) => {
        for (const link of tokens.flatMap(({ children }) => children ?? [])) {
          if (link.type !== 'link_open' || env.relativePath === undefined) continue;
          link.attrSet('href', targetOf(link.attrGet('href'), env.relativePath));
        }
      });
    },
    config(md) {
      // The corner of a table heads nothing.
      md.core.ruler.push('corners', ({ tokens }) => {
        for (const [index, token] of tokens.entries()) {
          if (token.type !== 'th_open' || tokens[index + 1].content !== '') continue;
          token.tag = tokens[index + 2].tag = 'td';
        }
      });
      // A wide table scrolls by itself, by the keyboard, too.
      md.renderer.rules.table_open = () =>
        '<div class="wide" role="group" aria-label="Table" tabindex="0"><table>\n';
      md.renderer.rules.table_close = () => '</table></div>\n';
    },
  },
  vite: { plugins: [vueOfThisPackage] },
  async buildEnd({ outDir, pages }) {
    checkLinks(outDir, base);
    writeTexts({ title, description, docs, outDir, pages, pageOf });
  },
  themeConfig: {
    ...navigationOf(docs),
    search: {
      provider: 'local',
      options: {
        miniSearch: {
          options: { tokenize: wordsOf },
          searchOptions: { boostDocument: byRoom, combineWith: 'AND', tokenize: wordsOf },
        },
      },
    },
    outline: [2, 3],
    socialLinks: [{ icon: 'github', link: REPOSITORY }],
    version,
    versions: publishedIn(ROOT),
  },
});

/** The anchor of a heading, as GitHub makes it. */
function slugOf(heading) {
  const kept = heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '');
  return kept.replaceAll(' ', '-');
}

/** A link of `docs` as this site has it: to a page, or to the repository for what is none. */
function targetOf(href, page) {
  if (/^(?:[a-z]+:|#|\/)/i.test(href)) return href;
  const [path, anchor] = href.split('#');
  const file = posix.join('docs', posix.dirname(page), path);
  if (!existsSync(join(root, file))) throw new Error(`docs/${page} links to ${href}: no such file`);
  const hash = anchor === undefined ? '' : `#${anchor}`;
  if (isPage(file)) return `/${pageOf(relative('docs', file))}${hash}`;
  return `${REPOSITORY}/blob/${version === undefined ? 'main' : `v${version}.0`}/${file}${hash}`;
}

/**
 * Who types a name first wants what the reference says of it, and of a plain word such as `store` the option. VitePress
 * sends its text to the browser: it refers to nothing outside of it.
 */
function byRoom(page) {
  if (page.includes('/reference/options')) return 80;
  if (page.includes('/reference/events')) return 60;
  return page.includes('/reference/') ? 20 : 1;
}

/** A name such as `lease.maxExecution` or `idempotency_in_progress` is found whole, and by its parts. */
function wordsOf(text) {
  const words = text.match(/[\p{L}\p{N}_.@/-]*[\p{L}\p{N}]/gu) ?? [];
  return words.flatMap((word) => {
    const parts = word.match(/[\p{L}\p{N}]+/gu) ?? [];
    return parts.length > 1 ? [word, ...parts] : parts;
  });
}
