import { readFileSync, writeFileSync } from 'node:fs';
import { withFigures } from './figures-page.js';
import { pagesWithFigures } from './pages.js';
import { loadReport } from './report.js';

for (const page of pagesWithFigures) {
  writeFileSync(page, withFigures(readFileSync(page, 'utf8'), loadReport));
}
