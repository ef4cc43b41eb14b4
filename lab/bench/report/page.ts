import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { withFigures } from '../../../test/support/docs/figures/report.js';
import { projectRoot } from '../../../test/support/project-root.js';
import { chartsOf } from './charts.js';
import { measurementsFolder } from './results-file.js';
import type { Results } from './result.js';
import { tablesOf } from './tables.js';

export const performancePage = join(projectRoot, 'docs/operations/performance.md');

/** The pages that show results. */
export const measuredPages: readonly string[] = [
  performancePage,
  ...readdirSync(measurementsFolder)
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(measurementsFolder, name)),
];

/** A page with the tables of the results between its marks. */
export function pageWith(results: Results, page: string): string {
  const tables = tablesOf(results);
  return withFigures(page, (name) => tables.get(name));
}

/** Lets the documentation show these results. */
export function updatePages(results: Results): void {
  for (const page of measuredPages) {
    writeFileSync(page, pageWith(results, readFileSync(page, 'utf8')));
  }
  for (const [name, chart] of chartsOf(results)) {
    writeFileSync(join(measurementsFolder, name), chart);
  }
}
