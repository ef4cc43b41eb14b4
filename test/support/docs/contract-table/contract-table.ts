import { type Note, notes } from './notes.js';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../project-root.js';

/** What is known of the clauses besides their text. */
export interface Evidence {
  /** Names of the tests that use only HTTP, by clause. */
  readonly fromOutside: ReadonlyMap<string, readonly string[]>;
  /** Names of the tests that share a process with the application. */
  readonly inProcess: ReadonlyMap<string, readonly string[]>;
  readonly notes: Readonly<Record<string, Note>>;
}

const BEGIN = '<!-- The clause table: npm run docs:contract writes it. -->\n';
const END = '<!-- End of the clause table. -->\n';

/**
 * The contract with its clause table as the tests have it now.
 *
 * @throws where the contract has no place for the table, where a clause has neither a test nor a reason, and
 * where a test or a note names a clause that the contract does not have.
 */
export function withClauseTable(contract: string, evidence: Evidence): string {
  const [before, rest] = parted(contract, BEGIN);
  const [, after] = parted(rest, END);
  const clauses = clausesOf(before + after);
  const { fromOutside, inProcess, notes } = evidence;
  const named = [...fromOutside.keys(), ...inProcess.keys(), ...Object.keys(notes)];
  const unknown = named.filter((clause) => !clauses.includes(clause));
  if (unknown.length > 0)
    throw new Error(`the contract has no ${[...new Set(unknown)].join(', ')}`);
  const rows = clauses.map((clause) => rowOf(clause, evidence));
  const table = ['| clause | holds | tested as |', '| --- | --- | --- |', ...rows].join('\n');
  // Columns padded to their widest cell would all change with every name.
  const ignored = `<!-- prettier-ignore-start -->\n${table}\n<!-- prettier-ignore-end -->\n`;
  return `${before}${BEGIN}\n${ignored}\n${END}${after}`;
}

function rowOf(clause: string, { fromOutside, inProcess, notes }: Evidence): string {
  const names = fromOutside.get(clause) ?? inProcess.get(clause) ?? [];
  const note = notes[clause];
  if (names.length === 0 && !(note !== undefined && 'doesNot' in note)) {
    throw new Error(`${clause} has no test, and nothing says why it does not hold`);
  }
  const cells = [clause, verdict(note), names.join('; ')];
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

function verdict(note: Note | undefined): string {
  if (note === undefined) return 'by default';
  if ('with' in note) return `with ${note.with}`;
  return 'doesNot' in note ? `does not: ${note.doesNot}` : `by default, ${note.byDefault}`;
}

function parted(text: string, mark: string): [before: string, after: string] {
  const at = text.indexOf(mark);
  if (at === -1) throw new Error(`the contract lacks the line ${mark}`);
  return [text.slice(0, at), text.slice(at + mark.length)];
}

export const contractFile = join(projectRoot, 'docs/reference/contract.md');

export function currentEvidence(): Evidence {
  return {
    fromOutside: testNames('test/contract/clauses'),
    inProcess: testNames('test/e2e'),
    notes,
  };
}

/** docs/reference/contract.md as it should be. */
export function currentContract(): string {
  return withClauseTable(readFileSync(contractFile, 'utf8'), currentEvidence());
}

/** The clauses in the order of the contract: the rows of its tables. */
export function clausesOf(contract: string): string[] {
  return Array.from(contract.matchAll(/^\| (C\d{2}[a-z]?) +\|/gm), ([, clause]) => clause!);
}

/** What the tests below a folder say of each clause, by their names. */
export function testNames(folder: string): Map<string, string[]> {
  const named = new Map<string, string[]>();
  for (const source of sourcesIn(join(projectRoot, folder))) {
    for (const [clause, name] of clauseNames(source)) {
      named.set(clause, [...(named.get(clause) ?? []), name]);
    }
  }
  return named;
}

/** The texts of a source that begin with a clause's number. */
export function clauseNames(source: string): [clause: string, name: string][] {
  const texts = source.matchAll(/(['"`])(C\d{2}[a-z]?) ((?:(?!\1)[^\\]|\\.)+)\1/g);
  return Array.from(texts, ([, , clause, name]) => {
    // Neither the server's name nor a promise's number is part of the clause.
    const clauseText = name!.replace(/, on \$name$|(?: \[P\d+\])+$/, '');
    return [clause!, clauseText.replaceAll(/\\(.)/g, '$1')];
  });
}

function sourcesIn(folder: string): string[] {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
  const sources = names.filter((name) => name.endsWith('.ts'));
  return sources.map((name) => readFileSync(join(folder, name), 'utf8'));
}
