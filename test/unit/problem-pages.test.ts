import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { REJECTIONS } from '../support/internals/core/util.js';
import { projectRoot } from '../support/project-root.js';

const pages = join(projectRoot, 'docs/problems');
const problems = Object.entries(REJECTIONS).map(([code, rejection]) => ({ code, ...rejection }));

const cellsOf = (row: string) =>
  row
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim());

describe('the pages about problems', () => {
  it.each(problems)('$page describes the response', ({ page, title, status, code, retryable }) => {
    const lines = readFileSync(join(pages, page, 'README.md'), 'utf8').split('\n');
    expect(lines[0]).toBe(`# ${title}`);
    expect(cellsOf(lines[4]!)).toEqual([
      String(status),
      `\`${code}\``,
      `\`${retryable}\``,
      retryable ? 'yes' : 'no',
    ]);
  });

  it('are as many as there are problems, and the index describes each', () => {
    const folders = readdirSync(pages, { withFileTypes: true }).filter((e) => e.isDirectory());
    expect(folders.map(({ name }) => name).sort()).toEqual(problems.map((p) => p.page).sort());
    const index = readFileSync(join(pages, 'README.md'), 'utf8');
    const rows = index.split('\n').filter((line) => line.startsWith('| ['));
    const expected = problems.map(({ page, title, status, code, retryable }) => [
      `[${title}](${page}/README.md)`,
      String(status),
      `\`${code}\``,
      retryable ? 'yes' : 'no',
    ]);
    expect(rows.map(cellsOf).sort()).toEqual(expected.sort());
  });
});
