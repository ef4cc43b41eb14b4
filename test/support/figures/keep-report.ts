import { updatePages } from './pages.js';
import { newReport, saveReport, type Row } from './report.js';

/**
 * Keeps what a run has measured, and shows it in the documentation.
 *
 * @param script - the npm script that ran.
 * @param args - its arguments, those aside that say where to keep the report.
 * @param servers - versions of what the run has started, by name.
 */
export function keepReport(
  name: string,
  script: string,
  args: readonly string[],
  servers: Readonly<Record<string, string>>,
  table: readonly Row[],
): void {
  const command = ['npm run', script, ...(args.length === 0 ? [] : ['--', ...args])].join(' ');
  saveReport(name, newReport(command, servers, table));
  updatePages();
}
