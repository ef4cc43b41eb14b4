import { updatePages } from './pages.js';
import { newReport, saveReport, type Row } from './report.js';

/**
 * Keeps the measurements of a run, and shows them in the documentation. Without a name it does neither.
 *
 * @param verb - the tool that ran, as `npm run lab --` calls it.
 * @param args - its arguments, except those that say where to keep the report.
 * @param servers - versions of the started servers, by name.
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
