import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { REJECTIONS } from '../internals/core.js';
import { projectRoot } from '../project-root.js';

const folder = join(projectRoot, 'docs/reference/problems');

/** The pages in docs/reference/problems that are missing, or differ from the table of rejections; and those that are not in it. */
export function stalePages(): string[] {
  const index = readPage('.');
  const stale = Object.entries(REJECTIONS).flatMap(([code, { page, title, status, retryable }]) => {
    const retryAfter = retryable ? 'yes' : 'no';
    const [heading, , , , cells = ''] = readPage(page);
    const head = [heading, ...cellsOf(cells)].join('|');
    const row = [`[${title}](${page}/README.md)`, status, `\`${code}\``, retryAfter].join('|');
    return [
      ...(head === [`# ${title}`, status, `\`${code}\``, `\`${retryable}\``, retryAfter].join('|')
        ? []
        : [page]),
      ...(index.some((line) => cellsOf(line).join('|') === row) ? [] : [`index: ${page}`]),
    ];
  });
  const known = new Set<string>(Object.values(REJECTIONS).map(({ page }) => page));
  const pages = readdirSync(folder, { withFileTypes: true }).filter((e) => e.isDirectory());
  const linked = index.flatMap((line) => /\]\(([a-z-]+)\/README\.md\)/.exec(line)?.[1] ?? []);
  return [...stale, ...[...pages.map(({ name }) => name), ...linked].filter((p) => !known.has(p))];
}

function readPage(page: string): string[] {
  const path = join(folder, page, 'README.md');
  return existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [];
}

function cellsOf(row: string): string[] {
  return row
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim());
}
