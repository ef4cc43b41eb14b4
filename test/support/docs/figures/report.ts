import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { projectRoot } from '../../project-root.js';

export type Row = Readonly<Record<string, string | number>>;

/** The measurements of a run, and their origin for a page of figures. */
export interface Report {
  /** The command that repeats the run. */
  readonly command: string;
  /** ISO 8601. */
  readonly date: string;
  readonly versions: Readonly<Record<string, string>>;
  readonly cores: number;
  /** The model of the processor, where the figures depend on it. */
  readonly processor?: string;
  /** Rows with the same columns. */
  readonly table: readonly Row[];
}

/** Where the figures of the documentation are kept. */
export const figuresFolder = join(projectRoot, 'docs/measurements/figures');

/** @param servers - versions of the started servers, by name. */
export function newReport(
  command: string,
  servers: Readonly<Record<string, string>>,
  table: readonly Row[],
): Report {
  return {
    command,
    date: new Date().toISOString(),
    versions: { 'nestjs-idempotency': packageVersion(), Node: process.versions.node, ...servers },
    cores: availableParallelism(),
    table,
  };
}

/** Writes the measurements of a run to `docs/measurements/figures/{name}.json`. */
export function saveReport(name: string, report: Report): void {
  mkdirSync(figuresFolder, { recursive: true });
  writeFileSync(join(figuresFolder, `${name}.json`), `${JSON.stringify(report, null, 2)}\n`);
}

export function loadReport(name: string): Report | undefined {
  const file = join(figuresFolder, `${name}.json`);
  if (!existsSync(file)) return undefined;
  return JSON.parse(readFileSync(file, 'utf8')) as Report;
}

function packageVersion(): string {
  const text = readFileSync(join(projectRoot, 'package.json'), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

const PLACE = /<!-- figures: ([a-z-]+) -->\n[^]*?<!-- end of figures -->/g;

/** The page with each `<!-- figures: name -->` followed by what its run has measured, if there was one. */
export function withFigures(page: string, load: (name: string) => Report | undefined): string {
  return page.replace(PLACE, (place, name: string) => {
    const report = load(name);
    if (report === undefined) return place;
    return [`<!-- figures: ${name} -->`, '', rendered(report), '<!-- end of figures -->'].join(
      '\n',
    );
  });
}

function rendered({ command, date, versions, cores, processor, table }: Report): string {
  const columns = Object.keys(table[0] ?? {});
  const software = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  const machine = processor === undefined ? `${cores} cores` : `${cores} cores, ${processor}`;
  const origin = [date.slice(0, 10), ...software, machine].join(', ');
  return [
    `\`${command}\` (${origin})`,
    '',
    // Columns padded to their widest cell would all change with every figure.
    '<!-- prettier-ignore-start -->',
    row(columns),
    row(
      columns.map((column, place) =>
        place > 0 && table.some((cells) => isFigure(cells[column])) ? '--:' : '---',
      ),
    ),
    ...table.map((cells) => row(columns.map((column) => formatCell(cells[column] ?? '')))),
    '<!-- prettier-ignore-end -->',
    '',
  ].join('\n');
}

function row(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

/** Of a date or a range, too. */
function isFigure(cell: string | number | undefined): boolean {
  return typeof cell === 'number' || /^\d/.test(cell ?? '');
}

function formatCell(cell: string | number): string {
  return typeof cell === 'number' ? cell.toLocaleString('en') : cell;
}

/** Pages of the documentation that show measurements. */
export const pagesWithFigures: readonly string[] = [
  'docs/measurements/faults.md',
  'docs/reference/operators.md',
  'docs/operations/capacity.md',
  'docs/operations/postgres.md',
  'docs/measurements/messages.md',
  'docs/explanation/comparison.md',
  'docs/explanation/protocol.md',
  'docs/measurements/process.md',
].map((page) => join(projectRoot, page));

/** Updates the documentation with the latest measurements. */
export function updatePages(): void {
  for (const page of pagesWithFigures) {
    writeFileSync(page, withFigures(readFileSync(page, 'utf8'), loadReport));
  }
}

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
