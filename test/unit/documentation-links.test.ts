import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { headingsOf } from '../support/docs/anchors.js';
import { projectRoot } from '../support/project-root.js';

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
  const text = readFileSync(join(projectRoot, page), 'utf8').replace(/```[^]*?```|`[^`\n]*`/g, '');
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
