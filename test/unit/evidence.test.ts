import { describe, expect, it } from '@jest/globals';
import {
  currentEvidence,
  EVIDENCE_PAGE,
  readProjectFile,
} from '../support/docs/evidence/current-evidence.js';
import { clauses, existing, model, type ReadFile } from '../support/docs/evidence/holdings.js';
import { promisesIn } from '../support/docs/evidence/promises.js';

const STORMS = 'test/faults/store/storms.test.ts';

/** The project with another text in one file, or without that file. */
function planted(path: string, from: string | undefined, to: string): ReadFile {
  const text = existing(readProjectFile, path);
  if (from !== undefined) expect(text).toContain(from);
  const changed = from === undefined ? undefined : text.replaceAll(from, () => to);
  return (other) => (other === path ? changed : readProjectFile(other));
}

describe('docs/explanation/evidence.md', () => {
  it('has what holds each promise: npm run texts', () => {
    expect(readProjectFile(EVIDENCE_PAGE)).toBe(currentEvidence(readProjectFile));
  });

  it.each<[mistake: string, path: string, from: string | undefined, to: string, message: string]>([
    [
      'a promise without evidence',
      'README.md',
      '- **One execution**',
      '- **Fast**: a replay never waits.\n- **One execution**',
      '"Fast: a replay never waits" has no evidence',
    ],
    [
      'a promise without evidence beside others',
      'docs/explanation/protocol.md',
      'one write authority;',
      'one write authority; a record of one key;',
      '"Always, per live record: a record of one key" has no evidence',
    ],
    [
      'a situation without evidence',
      'docs/explanation/reliability.md',
      '| SIGTERM ',
      '| SIGKILL ',
      '"SIGKILL" has no evidence',
    ],
    [
      'a promise with two entries',
      'README.md',
      '- **Nothing silent**:',
      '- **One engine, every transport**:',
      'has two entries',
    ],
    [
      'evidence without a promise',
      'docs/explanation/reliability.md',
      '| Redis is out of memory ',
      '| SIGTERM ',
      'No page promises "Redis is out of memory"',
    ],
    [
      'promises that do not lead to their evidence',
      'docs/operations/postgres.md',
      'What holds each: [evidence](../explanation/evidence.md).',
      '',
      'docs/operations/postgres.md, "What is promised": "What holds each: [evidence](…)." is missing',
    ],
    ['a file that is gone', STORMS, undefined, '', `There is no ${STORMS}`],
    [
      'a renamed test',
      STORMS,
      'A CLIENT KILL storm has',
      'A CLIENT KILL storm had',
      `${STORMS} has no test "A CLIENT KILL storm has every operation run once`,
    ],
    [
      'a renamed case of the conformance kit',
      'lib/testing/store/cases/release.ts',
      'never deletes an outcome',
      'deletes no outcome',
      'release.ts has no test "never deletes an outcome',
    ],
    [
      'a clause that is gone',
      'docs/reference/contract.md',
      '| C49 ',
      '| C49x ',
      'docs/reference/contract.md has no C49',
    ],
    [
      'figures that no page shows',
      'docs/measurements/faults.md',
      '<!-- figures: chaos-kills -->',
      '',
      'No page shows the figures "chaos-kills"',
    ],
    [
      'a tool that is gone',
      'test/lab/main.ts',
      '  chaos: {',
      '  mayhem: {',
      'npm run lab has no tool for: npm run lab -- chaos',
    ],
    ['a script that is gone', 'package.json', '"lab":', '"laboratory":', 'npm has no script for'],
  ])('is not written with %s', (_, path, from, to, message) => {
    expect(() => currentEvidence(planted(path, from, to))).toThrow(message);
  });

  it('is not written with a run that the model does not have', () => {
    expect(() => model('storm, 9 × 9')(readProjectFile)).toThrow('no run "storm, 9 × 9"');
  });

  it('is not written with a clause that its command would not run', () => {
    expect(() => clauses('C60b')(readProjectFile)).toThrow('test/contract has no test of C60b');
  });
});

it('The promises of a page are the clauses of its marked lists, and the situations of its marked tables', () => {
  const text = `# Page
- **Unmarked:** one.

## Promised
- **Always, of [all](all.md):** one (a; b); \`two\` for
  long. A third, (c. D) too.
- **Once** and no more.

What holds each: [evidence](evidence.md).

| when        | what |
| ----------- | ---- |
| it \`ends\` | this |
`;
  const found = promisesIn({ path: 'docs/page.md', text });
  expect(found.map((promised) => promised.text)).toEqual([
    'Always, of all: one (a; b)',
    'Always, of all: `two` for long',
    'A third, (c. D) too',
    'Once and no more',
    'it `ends`',
  ]);
  expect(new Set(found.map(({ section }) => section))).toEqual(new Set(['Promised']));
});
