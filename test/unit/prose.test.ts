import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { documentationPages } from '../support/docs/documented-code.js';
import { linesOfProse, paragraphsOf } from '../support/docs/prose.js';
import { projectRoot } from '../support/project-root.js';

const read = (page: string) => readFileSync(join(projectRoot, page), 'utf8');
const pages = documentationPages();

/** Pages that lead a reader to something: their paragraphs are short. Reference and explanation may take longer. */
const GUIDING = /^(?:README\.md|docs\/README\.md|docs\/(?:getting-started|guides|operations)\/.*)$/;
const MOST_WORDS = 90;
const MOST_LINES = 250;

describe('A page', () => {
  it(`has no paragraph of more than ${MOST_WORDS} words where it guides`, () => {
    const guiding = pages.filter((page) => GUIDING.test(page));
    expect(guiding.length).toBeGreaterThan(15);
    const long = guiding.flatMap((page) =>
      longParagraphs(read(page)).map(({ line, words }) => `${page}:${line}: ${words} words`),
    );
    expect(long).toEqual([]);
  });

  it(`has no more than ${MOST_LINES} lines of prose: code, and tables that a script writes, do not count`, () => {
    expect(pages.filter((page) => isLong(read(page)))).toEqual([]);
  });
});

it('The README has at most 140 lines of any kind', () => {
  expect(read('README.md').trimEnd().split('\n').length).toBeLessThanOrEqual(140);
});

function isLong(page: string): boolean {
  return linesOfProse(page) > MOST_LINES;
}

function longParagraphs(page: string) {
  return paragraphsOf(page).filter(({ words }) => words > MOST_WORDS);
}

describe('The lint', () => {
  const words = (count: number) => Array.from({ length: count }, () => 'word').join(' ');

  it('finds one word too many, in a paragraph and in an item of a list, with its line', () => {
    const page = `# Title\n\n${words(60)}\n${words(31)}\n\n- ${words(91)}\n- ${words(90)}\n`;
    expect(longParagraphs(page)).toEqual([
      { line: 3, words: 91 },
      { line: 6, words: 91 },
    ]);
  });

  it('counts neither code, tables, comments nor the targets of links', () => {
    const code = `  \`\`\`ts\n  ${words(95)}\n  \`\`\``;
    const comment = `<!-- ${words(95)} -->`;
    const generated = `<!-- prettier-ignore-start -->\n${words(95)}\n<!-- prettier-ignore-end -->`;
    const page = `${code}\n\n${comment}\n\n${generated}\n\n| ${words(95)} |\n\n[${words(90)}](a.md) – [b](c.md)`;
    expect(longParagraphs(page)).toEqual([{ line: 13, words: 91 }]);
    expect(linesOfProse(page)).toBe(9);
  });

  it('finds one line too many', () => {
    expect(isLong('a line\n'.repeat(MOST_LINES))).toBe(false);
    expect(isLong('a line\n'.repeat(MOST_LINES + 1))).toBe(true);
  });
});

/** Pages that are linked from the index of their folder, or of one above it. */
function indexOf(page: string): string[] {
  const folders = page.split('/').slice(0, -1);
  return folders
    .map((_, depth) => [...folders.slice(0, depth + 1), 'README.md'].join('/'))
    .filter((index) => index !== page);
}

function isLinked(page: string, from: string, text: string): boolean {
  const targets = [...text.matchAll(/\]\(([^)\s#]+)/g)].map(([, target]) =>
    posix.join(posix.dirname(from), target!),
  );
  return targets.includes(page);
}

describe('The index', () => {
  const inDocs = pages.filter((page) => page.startsWith('docs/') && page !== 'docs/README.md');
  const unlinked = (all: readonly string[]) =>
    all.filter(
      (page) =>
        !indexOf(page).some((index) => pages.includes(index) && isLinked(page, index, read(index))),
    );

  it('links each page of docs: docs/README.md, or the README of its room', () => {
    expect(unlinked(inDocs)).toEqual([]);
    expect(isLinked('docs/README.md', 'README.md', read('README.md'))).toBe(true);
  });

  it('is missed by a page that it does not link', () => {
    const planted = ['docs/guides/planted.md', 'docs/measurements/planted.md'];
    expect(unlinked([...inDocs, ...planted])).toEqual(planted);
  });
});
