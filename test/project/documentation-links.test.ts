import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { headingsOf, documentationPages } from '../support/docs/documented-blocks.js';
import { projectRoot } from '../support/project-root.js';

const read = (page: string) => readFileSync(join(projectRoot, page), 'utf8');

const pages = [
  ...readdirSync(projectRoot).filter((name) => name.endsWith('.md')),
  ...readdirSync(join(projectRoot, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
  'sample-app/README.md',
  'test/contract/README.md',
];

/** Targets within the project. A link in code is part of an example, and left out. */
function linksOf(page: string): string[] {
  const text = read(page).replace(/```[^]*?```|`[^`\n]*`/g, '');
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target]) => target!)
    .filter((target) => !/^[a-z]+:/.test(target));
}

function anchorsOf(file: string): string[] {
  return headingsOf(readFileSync(file, 'utf8')).map(({ anchor }) => anchor);
}

describe('The links of the documentation', () => {
  it.each(pages)('lead to existing targets: %s', (page) => {
    for (const target of linksOf(page)) {
      const [path = '', anchor] = target.split('#');
      const file = path === '' ? join(projectRoot, page) : join(projectRoot, dirname(page), path);
      expect({ target, exists: existsSync(file) }).toEqual({ target, exists: true });
      if (anchor !== undefined) {
        expect({ target, anchors: anchorsOf(file) }).toMatchObject({
          anchors: expect.arrayContaining([anchor]),
        });
      }
    }
  });

  it('are found', () => {
    expect(linksOf('README.md').length).toBeGreaterThan(10);
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
  const all = documentationPages();
  const inDocs = all.filter((page) => page.startsWith('docs/') && page !== 'docs/README.md');
  const unlinked = (some: readonly string[]) =>
    some.filter(
      (page) =>
        !indexOf(page).some((index) => all.includes(index) && isLinked(page, index, read(index))),
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
