import ts from 'typescript';

/** Words of identifiers that have a term in docs/explanation/glossary.md. */
const PRIVATE = new Set(
  `turn turns undertaking undertakings course bell rung ring heard hears alarm alarms patience patient impatient claim claims
  claimed tell tells telling told untold look looks looked looking sight fate became shadow shadowed answer answers answered
  answering unanswered outgrow outgrown led refuse refuses refused refusing refusal refusals wish wished wishes departure
  departures owed shaken revival obstacle loan loans borrow borrowed lend gap repetition repetitions disturb disturbance
  disturbances nobody whoever somebody layer layers mend`.split(/\s+/),
);

/** Names of other packages. */
const ALLOWED = /^(?:CacheLayer|CachePersistenceLayer)$/;

/** Declared names of a TypeScript file with a word that only this project had. */
export function privateNamesIn(path: string, text: string): string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    const name = (node as Partial<ts.NamedDeclaration>).name;
    if (name !== undefined && !ts.isImportSpecifier(node) && !ts.isPropertyAccessExpression(node)) {
      if ((ts.isIdentifier(name) || ts.isPrivateIdentifier(name)) && isPrivate(name.text)) {
        found.push(name.text);
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(path, text, ts.ScriptTarget.Latest));
  return found;
}

/** Names in a Lua or SQL file: every word that is no comment. */
export function privateWordsIn(text: string): string[] {
  const words = text.replace(/--\[\[[^]*?\]\]|--.*/g, '').match(/\w+/g) ?? [];
  return words.filter(isPrivate);
}

/** Whether one of the words of a name, or of a file's name, is one of these. */
export function isPrivate(name: string): boolean {
  if (ALLOWED.test(name)) return false;
  const words = name
    .replace(/look(?:ed|ing|s)?up/gi, 'find')
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1 $2');
  return words
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .some((word) => PRIVATE.has(word));
}
