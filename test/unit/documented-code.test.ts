import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { documentationPages, withCode } from '../support/docs/documented-code.js';
import { projectRoot } from '../support/project-root.js';

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
