import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import {
  clauseNames,
  clausesOf,
  withClauseTable,
  type Evidence,
  contractFile,
  currentContract,
  currentEvidence,
} from '../support/docs/contract-table/contract-table.js';
import { projectRoot } from '../support/project-root.js';
import { requestTexts } from './harness/request-files.js';

const contract = readFileSync(contractFile, 'utf8');

describe('docs/reference/contract.md', () => {
  it('has the clause table that npm run docs:contract writes', () => {
    expect(contract).toBe(currentContract());
  });

  it('has a test from outside for every clause but those of a lost lease', () => {
    const { fromOutside } = currentEvidence();
    const others = clausesOf(contract).filter((clause) => !fromOutside.has(clause));
    expect(new Set(others)).toEqual(new Set(['C60a', 'C60b']));
  });

  it('links to nothing that is not in this repository', () => {
    const links = [...contract.matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, path = '']) => path);
    expect(links.length).toBeGreaterThan(1);
    for (const link of links) {
      const target = resolve(projectRoot, 'docs/reference', link);
      expect(target.startsWith(projectRoot)).toBe(true);
      expect({ link, exists: existsSync(target) }).toEqual({ link, exists: true });
    }
  });

  it('names the clauses of all request files', () => {
    const named = [...requestTexts().keys()].flatMap((clauses) => clauses.split('-'));
    expect(clausesOf(contract)).toEqual(expect.arrayContaining(named));
  });
});

describe('the README of the suite', () => {
  it('lists every route that a request goes to', () => {
    const readme = readFileSync(join(import.meta.dirname, 'README.md'), 'utf8');
    const requests = [...requestTexts().values()].join('');
    const routes = [...requests.matchAll(/^[A-Z]+ (\/[a-z.-]+)[^ ]* HTTP\/1\.1$/gm)];
    expect(routes.length).toBeGreaterThan(200);
    for (const [, route] of routes) expect(readme).toMatch(new RegExp(`\`${route}[\`/]`));
  });
});

describe('the clause table', () => {
  const begin = '<!-- The clause table: npm run docs:contract writes it. -->\n';
  const end = '<!-- End of the clause table. -->\n';
  const text = `| C01 | one |\n\n${begin}the old table\n${end}\n| C02 | two |\n`;
  const evidence: Evidence = {
    fromOutside: new Map([['C01', ['one holds', "with more: 'a|b' it holds twice"]]]),
    inProcess: new Map([
      ['C01', ['one holds from inside']],
      ['C02', ['two holds']],
    ]),
    notes: { C02: { with: '`more: true`' } },
  };
  const rows = (given: Evidence) => withClauseTable(text, given).match(/^\| C.* \|.*\|.*\|$/gm);

  it('is made of the names of the tests, those from outside first, and of the notes', () => {
    expect(rows(evidence)).toEqual([
      "| C01 | by default | one holds; with more: 'a\\|b' it holds twice |",
      '| C02 | with `more: true` | two holds |',
    ]);
    expect(withClauseTable(text, evidence)).not.toContain('the old table');
  });

  it('has limits, and what does not hold', () => {
    const notes = { C01: { byDefault: 'on Mondays' }, C02: { doesNot: 'out of scope' } };
    expect(rows({ ...evidence, inProcess: new Map(), notes })).toEqual([
      "| C01 | by default, on Mondays | one holds; with more: 'a\\|b' it holds twice |",
      '| C02 | does not: out of scope |  |',
    ]);
  });

  it('is not written for a clause without a test and without a reason', () => {
    expect(() => withClauseTable(text, { ...evidence, inProcess: new Map() })).toThrow(
      'C02 has no',
    );
  });

  it('is not written where a test or a note names an unknown clause', () => {
    const inProcess = new Map([...evidence.inProcess, ['C03', ['three']] as const]);
    expect(() => withClauseTable(text, { ...evidence, inProcess })).toThrow('has no C03');
    const notes = { ...evidence.notes, C04: { with: 'luck' } };
    expect(() => withClauseTable(text, { ...evidence, notes })).toThrow('has no C04');
  });

  it('finds the names in any kind of quotes', () => {
    const source = `it('C01 it\\'s one', …); it("C02 with a: 'b'", …); each('C60a x, on $name'); // C03 no`;
    expect(clauseNames(source)).toEqual([
      ['C01', "it's one"],
      ['C02', "with a: 'b'"],
      ['C60a', 'x'],
    ]);
  });
});
