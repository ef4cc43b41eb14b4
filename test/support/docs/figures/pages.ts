import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../project-root.js';
import { withFigures } from './figures-page.js';
import { loadReport } from './report.js';

/** Pages of the documentation that show measurements. */
export const pagesWithFigures: readonly string[] = [
  'docs/measurements/faults.md',
  'docs/operations/capacity.md',
  'docs/operations/postgres.md',
  'docs/measurements/messages.md',
  'docs/explanation/protocol.md',
  'docs/measurements/process.md',
].map((page) => join(projectRoot, page));

/** Updates the documentation with the latest measurements. */
export function updatePages(): void {
  for (const page of pagesWithFigures) {
    writeFileSync(page, withFigures(readFileSync(page, 'utf8'), loadReport));
  }
}
