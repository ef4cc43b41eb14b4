import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { problems as exported } from '../support/internals/transports/http.js';
import { projectRoot } from '../support/project-root.js';

const pages = join(projectRoot, 'docs/problems');

type ProblemClass = new (context: exported.ProblemContext) => exported.IdempotencyProblem;

const isProblemClass = (value: unknown): value is ProblemClass =>
  typeof value === 'function' && value.prototype instanceof exported.IdempotencyProblem;

const problems = Object.values<unknown>(exported)
  .filter(isProblemClass)
  .map((Problem) => {
    const problem = new Problem({ typeBase: exported.PROBLEM_TYPE_BASE, retryAfterMs: 1_000 });
    const document = problem.getResponse() as exported.ProblemDocument;
    const slug = document.type.slice(exported.PROBLEM_TYPE_BASE.length + 1);
    return { slug, document, retryAfter: 'retry-after' in problem.headers };
  });

describe('the pages about problems', () => {
  it.each(problems)('$slug describes the response', ({ slug, document, retryAfter }) => {
    const page = readFileSync(join(pages, slug, 'README.md'), 'utf8');
    const cells = page
      .split('\n')[4]!
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim());
    expect(page.split('\n')[0]).toBe(`# ${document.title}`);
    expect(cells).toEqual([
      String(document.status),
      `\`${document.code}\``,
      `\`${document.retryable}\``,
      retryAfter ? 'yes' : 'no',
    ]);
  });

  it('are as many as there are problems, and the index links to each', () => {
    const slugs = problems.map(({ slug }) => slug).sort();
    const folders = readdirSync(pages, { withFileTypes: true }).filter((e) => e.isDirectory());
    expect(folders.map(({ name }) => name).sort()).toEqual(slugs);
    const index = readFileSync(join(pages, 'README.md'), 'utf8');
    const linked = [...index.matchAll(/\]\(([a-z-]+)\/README\.md\)/g)].map(([, slug]) => slug);
    expect(linked.sort()).toEqual(slugs);
  });
});
