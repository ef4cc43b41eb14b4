import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { CHECKS } from '../../lab/model/checks.js';
import { documentationPages } from '../support/docs/documented-blocks.js';
import { promisesIn } from '../support/docs/promises.js';
import { projectRoot } from '../support/project-root.js';

const EVIDENCE = 'docs/explanation/evidence.md';
const read = (path: string) => readFileSync(join(projectRoot, path), 'utf8');

/** Each tag in the titles of tests, once for each title. */
function tagsInTitles(): string[] {
  return ['test', 'lab/chaos']
    .flatMap((folder) =>
      readdirSync(join(projectRoot, folder), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.ts'))
        .map((name) => join(folder, name)),
    )
    .flatMap((path) => [...read(path).matchAll(/ \[(P\d\d(?:, P\d\d)*)\]['"`],/g)])
    .flatMap(([, tags]) => tags!.split(', '));
}

/** What is wrong with a page of evidence. */
function complaintsAbout(page: string, tags: ReadonlySet<string>): string[] {
  const rows = [...page.matchAll(/^\| (P\d\d) +\| (.*?) +\| (.*?) *\|$/gm)];
  const named = rows.map(([, tag]) => tag!);
  const clauses = new Set(
    readdirSync(join(projectRoot, 'test/contract/clauses'))
      .flatMap((name) => [...read(`test/contract/clauses/${name}`).matchAll(/\bC\d\d[a-z]?\b/g)])
      .map(([clause]) => clause),
  );
  const held = rows.flatMap(([, tag, , beside]) => {
    const own = beside!.match(/\bC\d\d[a-z]?\b/g) ?? [];
    const missing = own.filter((clause) => !clauses.has(clause));
    const runs = [...beside!.matchAll(/(?:model|counterexample): (.*?)(?=; [a-z]+: |; \[|$)/g)];
    const unknown = runs
      .map(([, name]) => name!)
      .filter((name) => !CHECKS.some((check) => check.name === name));
    return [
      ...(tags.has(tag!) || own.length > 0 ? [] : [`${tag}: no test has it`]),
      ...[...missing, ...unknown].map((name) => `${tag}: there is no ${name}`),
    ];
  });
  const promised = documentationPages()
    .filter((path) => path !== EVIDENCE)
    .flatMap((path) => promisesIn({ path, text: read(path) }))
    .filter(({ text }) => !plain(page).includes(plain(text)))
    .map(({ text }) => `no tag: ${text}`);
  return [
    ...held,
    ...[...tags].filter((tag) => !named.includes(tag)).map((tag) => `${tag}: no promise has it`),
    ...named.filter((tag, index) => named.indexOf(tag) < index).map((tag) => `${tag}: twice`),
    ...promised,
  ];
}

function plain(text: string): string {
  return text.replaceAll('\\|', '|');
}

describe(EVIDENCE, () => {
  const page = read(EVIDENCE);
  const tags = new Set(tagsInTitles());

  it('has a tag for each promise, and tests with each tag', () => {
    expect(complaintsAbout(page, tags)).toEqual([]);
  });

  it.each([
    ['a promise without a test', page, (tag: string) => tag !== 'P07', 'P07: no test has it'],
    ['a tag without a promise', page.replace('| P07 ', '| PXX '), () => true, 'P07: no promise'],
    ['a clause that is gone', page.replaceAll('C49', 'C99'), () => true, 'there is no C99'],
    ['a run that is gone', page.replace('model: calm', 'model: calmer'), () => true, 'no calmer'],
    [
      'a promise without a tag',
      page.replace('| a pipe or a guard', '| a pipe'),
      () => true,
      'no tag: ',
    ],
  ])('is not accepted with %s', (_, text, isThere, complaint) => {
    const complaints = complaintsAbout(text, new Set([...tags].filter(isThere)));
    expect(complaints.join('\n')).toContain(complaint);
  });
});
