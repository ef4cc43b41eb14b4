import { posix, relative } from 'node:path';
import { recorded } from '../../../lab/simulate/mistakes/recorded.js';
import { CHECKS } from '../../../model/checks.js';
import { headingsOf } from '../anchors.js';
import { clausesOf, testNames } from '../contract-table/clause-names.js';
import { pagesWithFigures } from '../figures/pages.js';
import type { Report } from '../figures/report.js';
import { projectRoot } from '../../project-root.js';

/** The text of a file, by its path from the project's root; `undefined` where there is none. */
export type ReadFile = (path: string) => string | undefined;

/** What holds a promise, in Markdown. */
export interface Shown {
  readonly kind: string;
  readonly what: string;
  /** Repeats it. */
  readonly command: string;
}

/** @throws where it names what does not exist. */
export type Holding = (read: ReadFile) => Shown;

/** Tests of a file, by their titles as they are written there, but `…` for each expression in them. */
export function test(file: string, ...titles: readonly [string, ...string[]]): Holding {
  return (read) => ({
    kind: file.includes('mutants') ? 'planted mistakes' : 'test',
    what: titlesIn(read, file, titles),
    command: `npm ${file.endsWith('.all.test.ts') ? 'run test:all' : 'test'} -- ${file}`,
  });
}

/** Cases of the conformance kit, which runs on each store. */
export function kit(chapter: string, ...titles: readonly [string, ...string[]]): Holding {
  return (read) => ({
    kind: 'store kit',
    what: titlesIn(read, `lib/testing/store/cases/${chapter}.ts`, titles),
    command: 'npm test -- test/conformance',
  });
}

/** Clauses of the HTTP contract, whose tests stand there. */
export function clauses(...numbers: readonly string[]): Holding {
  return (read) => {
    const known = clausesOf(existing(read, 'docs/reference/contract.md'));
    const fromOutside = testNames('test/contract/clauses');
    for (const number of numbers) {
      if (!known.includes(number)) throw new Error(`docs/reference/contract.md has no ${number}`);
      if (!fromOutside.has(number)) throw new Error(`test/contract has no test of ${number}`);
    }
    return {
      kind: 'clauses',
      what: `[${numbers.join(', ')}](${fromPage('docs/reference/contract.md')}#what-holds)`,
      command: `npm test -- test/contract -t "(${numbers.join('|')}) "`,
    };
  };
}

/** A run of the model, or a counterexample of one with a planted mistake. */
export function model(name: string): Holding {
  return () => {
    const check = CHECKS.find((one) => one.name === name);
    if (check === undefined) throw new Error(`The model has no run "${name}"`);
    const isMistake = check.expected === 'a counterexample';
    return {
      kind: isMistake ? 'counterexample' : 'model',
      what: isMistake ? name : `[${name}](protocol.md#what-was-checked)`,
      command: `npm run lab -- model "${name}"`,
    };
  };
}

/** The engine in virtual time, which comes to no objection, but to one with each of these planted mistakes. */
export function simulation(...mistakes: readonly [string, ...string[]]): Holding {
  return () => {
    const found = new Set(recorded().map(({ mistake }) => mistake));
    for (const mistake of mistakes) {
      if (!found.has(mistake)) throw new Error(`The simulation has not found "${mistake}"`);
    }
    return {
      kind: 'simulation',
      what: `[no objection](../measurements/faults.md#in-virtual-time), but one where ${mistakes.join('; ')}`,
      command: 'npm run lab -- simulate --requests 300000',
    };
  };
}

/** Figures that a run has kept. */
export function figures(name: string): Holding {
  return (read) => {
    const { command } = JSON.parse(
      existing(read, `docs/measurements/figures/${name}.json`),
    ) as Report;
    const mark = `<!-- figures: ${name} -->`;
    for (const page of pagesWithFigures) {
      const path = relative(projectRoot, page);
      const [before, after] = existing(read, path).split(mark);
      if (after === undefined) continue;
      const { text, anchor } = headingsOf(before!).at(-1)!;
      return { kind: 'measurement', what: `[${text}](${fromPage(path)}#${anchor})`, command };
    }
    throw new Error(`No page shows the figures "${name}"`);
  };
}

/** A path from the project's root, as the page of evidence links to it. */
export function fromPage(path: string): string {
  return posix.relative('docs/explanation', path);
}

export function existing(read: ReadFile, path: string): string {
  const text = read(path);
  if (text === undefined) throw new Error(`There is no ${path}`);
  return text;
}

/** The file, with titles of its tests. */
function titlesIn(read: ReadFile, file: string, titles: readonly string[]): string {
  const source = existing(read, file)
    .replace(/\$\{[^}]*\}/g, '…')
    .replaceAll(String.raw`\'`, "'");
  for (const title of titles) {
    const isThere = ["'", '"', '`'].some((quote) => source.includes(`${quote}${title}${quote},`));
    if (!isThere) throw new Error(`${file} has no test "${title}"`);
  }
  const name = file.slice(file.lastIndexOf('/') + 1).replace(/(?:\.all)?(?:\.test)?\.ts$/, '');
  return `[${name}](${fromPage(file)}): ${titles.map(readable).join('; ')}`;
}

/** Without what a runner replaces in a title. */
function readable(title: string): string {
  return title.replace(/%[dijps#]|\$\w+/g, '…');
}
