import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, describe } from '@jest/globals';
import { projectRoot } from '../support/project-root.js';
import { shippedTexts } from '../support/packages/shipped-texts/shipped-texts.js';
import { stalePages } from '../support/docs/problem-pages.js';
import { documentationPages, withCode } from '../support/docs/documented-blocks.js';

it.each(shippedTexts())('$path equals its source: npm run texts', ({ path, source }) => {
  expect(readFileSync(join(projectRoot, path), 'utf8')).toBe(source);
});

it('the pages about problems and their index are those of the table of rejections', () => {
  expect(stalePages()).toEqual([]);
});

const read = (path: string) => readFileSync(join(projectRoot, path), 'utf8');

describe('A block of code that names its file', () => {
  it.each(documentationPages())('is what the file has: %s (npm run texts)', (page) => {
    const text = read(page);
    expect(withCode(text, read)).toBe(text);
  });

  const file = 'a;\n// #region one\n  if (b) {\n    c;\n  }\n// #endregion\nd;\n';
  const page = (place: string) =>
    `# Page\n\n<!-- code: ${place} -->\n\n\`\`\`ts\nold\n\`\`\`\n\nEnd.\n`;
  const block = (code: string) => expect.stringContaining(`-->\n\n\`\`\`ts\n${code}\`\`\`\n\nEnd.`);

  it('is the whole file, without the marks of its regions', () => {
    const marked = withCode(page('x.ts'), () => file);
    expect(marked).toEqual(block('a;\n  if (b) {\n    c;\n  }\nd;\n'));
  });

  it('is a region, without the indentation that its lines share', () => {
    expect(withCode(page('x.ts#one'), () => file)).toEqual(block('if (b) {\n  c;\n}\n'));
  });

  it('is not written from a region that is gone', () => {
    expect(() => withCode(page('x.ts#two'), () => file)).toThrow('x.ts has no region "two"');
  });
});
