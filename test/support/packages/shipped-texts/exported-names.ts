import { join } from 'node:path';
import ts from 'typescript';
import { projectRoot } from '../../project-root.js';
import { packageEntries } from '../../typescript/package-entries.mjs';
import { describedAs, sourceOf } from './doc-comments.js';

type Declaration =
  | ts.ClassDeclaration
  | ts.FunctionDeclaration
  | ts.InterfaceDeclaration
  | ts.TypeAliasDeclaration
  | ts.VariableStatement;

export interface ExportedName {
  readonly name: string;
  /** Of the entry, as importers write it. */
  readonly entry: string;
  /** A type and a value may share a name. */
  readonly declarations: readonly Declaration[];
}

/** All names that the entries export, in the order of the entries. */
export function exportedNames(): ExportedName[] {
  return [...packageEntries(projectRoot)].flatMap(([entry, { source }]) =>
    exportsOf(source).map(({ name, declarations }) => ({ name, entry, declarations })),
  );
}

function exportsOf(file: string): Pick<ExportedName, 'name' | 'declarations'>[] {
  return sourceOf(file).statements.flatMap((statement) => {
    if (!ts.isExportDeclaration(statement)) return [];
    const { exportClause, moduleSpecifier } = statement;
    if (exportClause === undefined || !ts.isNamedExports(exportClause)) {
      throw new Error(`${file} exports names that it does not list.`);
    }
    const from = fileOf(file, moduleSpecifier);
    return exportClause.elements.map(({ name, propertyName }) => ({
      name: name.text,
      declarations: declarationsOf(from, (propertyName ?? name).text),
    }));
  });
}

function fileOf(importer: string, specifier: ts.Expression | undefined): string {
  if (specifier === undefined || !ts.isStringLiteral(specifier)) return importer;
  return join(importer, '..', specifier.text.replace(/\.js$/, '.ts'));
}

/** What a file declares by that name: a type and a value may share one. */
function declarationsOf(file: string, name: string): Declaration[] {
  const { statements } = sourceOf(file);
  const declared = statements.filter((statement): statement is Declaration =>
    namesOf(statement).includes(name),
  );
  if (declared.length > 0) return declared;
  for (const statement of statements) {
    if (!ts.isExportDeclaration(statement) || statement.exportClause === undefined) continue;
    if (!ts.isNamedExports(statement.exportClause)) continue;
    const found = statement.exportClause.elements.find((element) => element.name.text === name);
    const from = fileOf(file, statement.moduleSpecifier);
    if (found !== undefined) return declarationsOf(from, (found.propertyName ?? found.name).text);
  }
  throw new Error(`${file} does not declare ${name}.`);
}

function namesOf(statement: ts.Statement): string[] {
  if (ts.isVariableStatement(statement)) {
    return statement.declarationList.declarations.map(({ name }) => name.getText());
  }
  const isDeclaration =
    ts.isClassDeclaration(statement) ||
    ts.isFunctionDeclaration(statement) ||
    ts.isInterfaceDeclaration(statement) ||
    ts.isTypeAliasDeclaration(statement);
  return isDeclaration && statement.name !== undefined ? [statement.name.text] : [];
}

/** @throws if the name has no doc comment. */
export function meaningOf(name: string, declarations: readonly Declaration[]): string {
  const meaning = declarations.map(describedAs).find((text) => text !== '');
  if (meaning === undefined) throw new Error(`The exported name ${name} has no doc comment.`);
  return meaning;
}
