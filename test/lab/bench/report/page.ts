import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { withFigures } from '../../../support/docs/figures/figures-page.js';
import { projectRoot } from '../../../support/project-root.js';
import { chartsOf } from './charts.js';
import { assetsFolder } from './results-file.js';
import type { Results } from './result.js';
import { tablesOf } from './tables.js';

export const performancePage = join(projectRoot, 'docs/performance.md');

/** The page with the tables of the results between its marks. */
export function pageWith(results: Results, page: string): string {
  const tables = tablesOf(results);
  return withFigures(page, (name) => tables.get(name));
}

/** Lets the documentation show these results. */
export function updatePage(results: Results): void {
  writeFileSync(performancePage, pageWith(results, readFileSync(performancePage, 'utf8')));
  mkdirSync(assetsFolder, { recursive: true });
  for (const [name, chart] of chartsOf(results)) writeFileSync(join(assetsFolder, name), chart);
}
