import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { measuredPages } from '../../lab/bench/report/page.js';
import { withFigures } from '../support/docs/figures/figures-page.js';
import { CHECKS } from '../../lab/model/checks.js';
import { REPORT, propertyOf } from '../../lab/model/figures.js';
import { pagesWithFigures } from '../support/docs/figures/pages.js';
import { figuresFolder, loadReport } from '../support/docs/figures/report.js';
import { projectRoot } from '../support/project-root.js';

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

  const withoutFigures = (page: string) =>
    page.replace(/<!-- figures: [^]*?<!-- end of figures -->/g, '');

  /** Lines of a page about performance with a figure that no run has written. */
  function typedIn(page: string): string[] {
    const prose = withoutFigures(page).replace(/```[^]*?```|`[^`]*`/g, '');
    return prose.match(/.*\d(?:[.,]\d| ?(?:%|×|[µm]?s\b|times|requests|replays)).*/g) ?? [];
  }

  it('are nowhere typed in by hand', () => {
    for (const page of measuredPages) expect(typedIn(readFileSync(page, 'utf8'))).toEqual([]);
    for (const figure of ['1.06 of it', '85 µs', '9 times', '2 ms', '20 %', '17,700 replays']) {
      expect(typedIn(`A replay: ${figure}, on Node 24.`)).toHaveLength(1);
    }
  });

  it.each(['docs/explanation/protocol.md', 'lab/model/README.md'])(
    'of the model are nowhere typed in by hand: %s',
    (page) => {
      const figures = /\d,\d{3}|\d (?:MB|GB|minutes|states)\b|\b\w+ minutes/g;
      const text = withoutFigures(readFileSync(join(projectRoot, page), 'utf8'));
      expect(text.match(figures) ?? []).toEqual([]);
      expect('2,664 runs, 9 states, 2.6 GB, six minutes'.match(figures)).toHaveLength(4);
    },
  );

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
