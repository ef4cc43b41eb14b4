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
