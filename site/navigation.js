import { existsSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';

/** Links within `docs`, outside of code. */
const LINK = /\[([^\]]+)\]\(([^)\s#:]+\.md)\)/g;

/**
 * The side bar, as docs/README.md lists the pages: a group for each of its headings, and in a group the pages that it
 * links first, by the words of the link. What the index of a folder links stands below that index.
 *
 * @param {string} docs - the folder.
 */
export function navigationOf(docs) {
  const seen = new Set(['README.md']);
  const linksOf = (text, folder) =>
    Array.from(text.matchAll(LINK), ([, words, path]) => ({
      words: words.replaceAll('`', ''),
      file: posix.join(folder, path),
    })).filter(({ file }) => !file.startsWith('..') && existsSync(join(docs, file)));
  const itemsOf = (links) =>
    links.flatMap(({ words, file }) => {
      if (seen.has(file) || file.startsWith('reference/api/')) return [];
      seen.add(file);
      const item = {
        text: words,
        link: `/${file.replace(/README\.md$/, '').replace(/\.md$/, '.html')}`,
      };
      if (!file.endsWith('/README.md')) return [item];
      const folder = posix.dirname(file);
      const text = readFileSync(join(docs, file), 'utf8');
      const inside = linksOf(text, folder).filter((link) => link.file.startsWith(`${folder}/`));
      return [{ ...item, collapsed: true, items: itemsOf(inside) }];
    });
  const [, ...sections] = readFileSync(join(docs, 'README.md'), 'utf8').split(/^## /m);
  const sidebar = sections.map((section) => ({
    text: section.slice(0, section.indexOf('\n')),
    items: itemsOf(linksOf(section, '')),
  }));
  const nav = ['Start', 'Look up'].flatMap((text) => {
    const [first] = sidebar.find((group) => group.text === text)?.items ?? [];
    return first === undefined ? [] : [{ text, link: first.link }];
  });
  return { nav, sidebar };
}
