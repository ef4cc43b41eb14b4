import { updatePages } from './pages.js';
import { newReport, saveReport, type Row } from './report.js';

/**
 * Keeps what a run has measured, and shows it in the documentation. Without a name it does neither.
 *
 * @param verb - the tool that ran, as `npm run lab --` calls it.
 * @param args - its arguments, those aside that say where to keep the report.
 * @param servers - versions of what the run has started, by name.
 */
export function keepReport(
  name: string | undefined,
  verb: string,
  args: readonly string[],
  servers: Readonly<Record<string, string>>,
  table: readonly Row[],
): void {
  if (name === undefined) return;
  const command = ['npm run lab --', verb, ...args].join(' ');
  saveReport(name, newReport(command, servers, table));
  updatePages();
}
