import { clausesOf } from './clause-names.js';
import type { Note } from './notes.js';

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
