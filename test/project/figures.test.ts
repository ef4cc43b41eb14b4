import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import {
  withFigures,
  pagesWithFigures,
  figuresFolder,
  loadReport,
} from '../support/docs/figures/report.js';
import { CHECKS } from '../../lab/model/checks.js';
import { REPORT, propertyOf } from '../../lab/model/figures.js';

const pages = pagesWithFigures.map((page) => readFileSync(page, 'utf8'));

describe('The figures of the documentation', () => {
  it.each(pages)('are those that the runs wrote (--report)', (page) => {
    expect(page).toBe(withFigures(page, loadReport));
  });

  it('are all shown', () => {
    const kept = readdirSync(figuresFolder).map((name) => name.replace(/\.json$/, ''));
    const shown = pages.flatMap((page) => [...page.matchAll(/<!-- figures: ([a-z-]+) -->/g)]);
    // The tables of the benchmark are kept elsewhere and have their own test.
    const ofReports = shown.map(([, name]) => name!).filter((name) => !name.startsWith('bench-'));
    expect(ofReports.sort()).toEqual(kept.sort());
  });

  it('of the model are those of its runs: npm run lab -- model --report', () => {
    const shown = loadReport(REPORT)?.table ?? [];
    const ofRuns = CHECKS.filter(({ expected }) => expected === 'no error').map(propertyOf);
    expect(shown.map(({ states: _, 'counted on': __, ...property }) => property)).toEqual(ofRuns);
  });

  it('stand between their marks, and nothing else changes', () => {
    const page = 'before\n<!-- figures: some -->\nold\n<!-- end of figures -->\nafter\n';
    const written = withFigures(page, () => ({
      command: 'npm run some',
      date: '2026-01-02T03:04:05.678Z',
      versions: { Node: '20.1.2' },
      cores: 2,
      table: [
        { what: 'requests', count: 1_000_000 },
        { what: 'a|b', count: '< 3/1000' },
      ],
    }));
    expect(written).toMatch(/^before\n<!-- figures: some -->\n\n`npm run some` \(2026-01-02, Node/);
    expect(written).toContain('\n| what | count |\n| --- | --: |\n| requests | 1,000,000 |\n');
    expect(written).toContain('| a\\|b | < 3/1000 |');
    expect(written).toMatch(/<!-- end of figures -->\nafter\n$/);
    expect(written).not.toContain('old');
  });
});
