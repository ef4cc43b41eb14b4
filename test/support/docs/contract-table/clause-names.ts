import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../project-root.js';

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
