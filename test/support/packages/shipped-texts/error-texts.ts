import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { REJECTIONS, type Rejection } from '../../internals/core.js';
import { projectRoot } from '../../project-root.js';
import { sourceOf } from './doc-comments.js';
import { exportedNames, meaningOf } from './exported-names.js';
import { generatedPage, table } from './markdown.js';
import type { TextModule } from './option-texts.js';

/** The page of all codes and errors. */
export function errorTexts(): TextModule[] {
  const classes = errorClasses();
  const { missing, unknown } = differenceOfCodes(classes);
  if (missing.length > 0) throw new Error(`No class has the codes ${missing.join(', ')}.`);
  if (unknown.length > 0)
    throw new Error(`The type IdempotencyErrorCode lacks ${unknown.join(', ')}.`);
  const parts = [
    '## Rejections',
    'The operation was not run, or its outcome cannot be returned. On HTTP: the exception `IdempotencyProblem`, whose problem document has the title and the detail. Elsewhere: `OperationRejectedError` with the message.',
    table(
      ['`code`', 'Status', 'Retry', 'On HTTP', 'Elsewhere'],
      Object.entries(REJECTIONS).map(rejectionRow),
    ),
    '## Classes',
    'The errors that an application can catch, and the folders that create them, of `lib` or of another package.',
    table(
      ['Class', '`code`', 'Entry', 'Created in', 'Meaning'],
      classes.map(({ cells }) => cells),
    ),
    '## Codes of `idempotentFetch`',
    'Of an `IdempotentFetchError` that is no `IdempotencyProblemError`: that one has the `code` of the problem document.',
    table(
      ['`code`', 'Meaning'],
      codesOf('packages/client/lib/errors.ts', 'UnfinishedCode').map(({ code, meaning }) => [
        `\`${code}\``,
        meaning,
      ]),
    ),
    '## Warnings of stores',
    "Found when the application starts or while it runs: in Nest's log, and in the report of `IdempotencyHealth`. They reject no request.",
    table(['`code`', 'Message'], storeWarnings()),
    '## What the message of a store error adds',
    'By the error code of Redis:',
    table(['Redis', 'What to do'], remediesIn('lib/stores/redis/link/send-failure.ts')),
    'By the SQLSTATE of PostgreSQL:',
    table(
      ['PostgreSQL', 'What to do'],
      remediesIn('lib/stores/postgres/connection/error-classification.ts'),
    ),
    'By the error number of MySQL and MariaDB:',
    table(
      ['MySQL', 'What to do'],
      remediesIn('lib/stores/mysql/connection/error-classification.ts'),
    ),
  ];
  return [generatedPage('docs/reference/errors.md', 'errors', parts)];
}

/** The codes that only the type has, and those that only the rejections and the classes have. */
function differenceOfCodes(classes: readonly ErrorClass[]) {
  const used = [...Object.keys(REJECTIONS), ...classes.map(({ code }) => code)].filter(
    (code) => code?.startsWith('idempotency_') === true,
  );
  const typed: (string | undefined)[] = [
    ...Object.keys(REJECTIONS),
    ...codesOf('lib/core/errors/errors.ts', 'IdempotencyErrorCode').map(({ code }) => code),
  ];
  return {
    missing: typed.filter((code) => !used.includes(code)),
    unknown: used.filter((code) => !typed.includes(code)),
  };
}

function rejectionRow([code, rejection]: [string, Rejection]): (string | number)[] {
  const { status, title, detail, retryable, page, message = `${title}.`, remedy = '' } = rejection;
  return [
    `[\`${code}\`](problems/${page}/README.md)`,
    status,
    retryable ? 'yes' : 'no',
    `${title}. ${detail}`,
    `${message} ${remedy}`.trim(),
  ];
}

interface ErrorClass {
  /** Undefined if it has several, or none. */
  readonly code: string | undefined;
  readonly cells: readonly string[];
}

function errorClasses(): ErrorClass[] {
  const entries = new Map<string, string[]>();
  const found = exportedNames().filter(({ name, entry, declarations }) => {
    if (!/(?:Error|Problem)$/.test(name) || !declarations.some(ts.isClassDeclaration)) return false;
    entries.set(name, [...(entries.get(name) ?? []), entry]);
    return entries.get(name)?.length === 1;
  });
  const folders = foldersThatCreate(found.map(({ name }) => name));
  found.sort((one, other) => (one.name < other.name ? -1 : 1));
  return found.map(({ name, declarations }) => {
    const code = codeOf(declarations.find(ts.isClassDeclaration));
    return {
      code,
      cells: [
        `\`${name}\``,
        code === undefined ? '' : `\`${code}\``,
        (entries.get(name) ?? []).map((entry) => `\`${entry}\``).join(', '),
        folders.get(name)?.join(', ') ?? '',
        meaningOf(name, declarations),
      ],
    };
  });
}

function codeOf(declaration: ts.ClassDeclaration | undefined): string | undefined {
  const code = declaration?.members.find(
    (member): member is ts.PropertyDeclaration =>
      ts.isPropertyDeclaration(member) && member.name.getText() === 'code',
  );
  const { initializer } = code ?? {};
  return initializer !== undefined && ts.isStringLiteral(initializer)
    ? initializer.text
    : undefined;
}

function foldersThatCreate(names: readonly string[]): Map<string, string[]> {
  const folders = new Map<string, string[]>();
  for (const file of ['lib', 'packages/client/lib'].flatMap(filesIn)) {
    const { text } = sourceOf(file);
    const folder = folderOf(file);
    for (const name of names) {
      const isCreated =
        text.includes(`new ${name}(`) ||
        (name === 'OperationRejectedError' && /[^n] rejectionError\(/.test(text)) ||
        (name === 'IdempotencyProblem' && text.includes('IdempotencyProblem.of('));
      const known = folders.get(name) ?? [];
      if (isCreated && !known.includes(folder)) folders.set(name, [...known, folder]);
    }
  }
  return folders;
}

/** `lib/stores/redis/scripts/x.ts` → `stores/redis`; of other folders, the first part; of another package, its folder. */
function folderOf(file: string): string {
  if (file.startsWith('packages/')) return file.split('/', 2).join('/');
  const [, first = '', second = ''] = file.split('/');
  const isDivided = ['blobs', 'stores', 'transports'].includes(first);
  return isDivided ? `${first}/${second}` : first;
}

function filesIn(folder: string): string[] {
  return readdirSync(join(projectRoot, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.generated.ts'))
    .sort()
    .map((name) => `${folder}/${name}`);
}

/** The members of a union of texts, with their comments. */
function codesOf(file: string, type: string): { code: string; meaning: string }[] {
  const union = sourceOf(file).statements.find(
    (statement): statement is ts.TypeAliasDeclaration =>
      ts.isTypeAliasDeclaration(statement) && statement.name.text === type,
  );
  const member = /(?:\/\*\*((?:(?!\*\/)[^])*)\*\/\s*)?\|\s*'(\w+)'/g;
  return Array.from(
    union?.type.getFullText().matchAll(member) ?? [],
    ([, comment = '', code = '']) => ({
      code,
      meaning: comment.replace(/\s*\n\s*\*?\s*/g, ' ').trim(),
    }),
  );
}

/** The objects with a code and a message. */
function storeWarnings(): string[][] {
  const rows = ['lib/blobs', 'lib/stores', 'lib/core/payload', 'lib/core/store']
    .flatMap(filesIn)
    .flatMap((file) => {
      const found: string[][] = [];
      const visit = (node: ts.Node): void => {
        if (ts.isObjectLiteralExpression(node)) {
          const code = memberOf(node, 'code');
          const message = memberOf(node, 'message');
          if (
            code !== undefined &&
            ts.isStringLiteral(code) &&
            /^[a-z_]+$/.test(code.text) &&
            message !== undefined
          ) {
            found.push([`\`${code.text}\``, textOf(message)]);
          }
        }
        ts.forEachChild(node, visit);
      };
      visit(sourceOf(file));
      return found;
    });
  return rows.sort(([one = ''], [other = '']) => (one < other ? -1 : 1));
}

/** The value of a member; of a shorthand, the value of the constant. */
function memberOf(object: ts.ObjectLiteralExpression, name: string): ts.Expression | undefined {
  const member = object.properties.find((property) => property.name?.getText() === name);
  if (member === undefined) return undefined;
  if (ts.isPropertyAssignment(member)) return member.initializer;
  let constant: ts.Expression | undefined;
  const visit = (node: ts.Node): void => {
    if (ts.isVariableDeclaration(node) && node.name.getText() === name) constant = node.initializer;
    ts.forEachChild(node, visit);
  };
  visit(object.getSourceFile());
  return constant;
}

/** A text, with `…` for what it inserts. */
function textOf(expression: ts.Expression): string {
  if (ts.isStringLiteralLike(expression)) return expression.text;
  if (ts.isTemplateExpression(expression)) {
    const { head, templateSpans } = expression;
    return head.text + templateSpans.map(({ literal }) => `…${literal.text}`).join('');
  }
  return expression.getText().endsWith('.message') ? 'The message of the error.' : '…';
}

function remediesIn(file: string): string[][] {
  const rows: string[][] = [];
  for (const statement of sourceOf(file).statements) {
    if (!ts.isVariableStatement(statement)) continue;
    const [declaration] = statement.declarationList.declarations;
    const { initializer } = declaration ?? {};
    if (declaration?.name.getText() !== 'REMEDIES' || initializer === undefined) continue;
    if (!ts.isObjectLiteralExpression(initializer)) continue;
    for (const property of initializer.properties) {
      if (!ts.isPropertyAssignment(property)) continue;
      const name = property.name.getText().replaceAll("'", '');
      rows.push([`\`${name}\``, textOf(valueOf(property.initializer))]);
    }
  }
  if (rows.length === 0) throw new Error(`${file} has no table of remedies.`);
  return rows;
}

/** What a function returns, and what a constant or a function of the file has. */
function valueOf(expression: ts.Expression): ts.Expression {
  if (ts.isArrowFunction(expression) && !ts.isBlock(expression.body))
    return valueOf(expression.body);
  if (!ts.isIdentifier(expression)) return expression;
  let value: ts.Expression = expression;
  const visit = (node: ts.Node): void => {
    if (ts.isVariableDeclaration(node) && node.name.getText() === expression.text) {
      value = node.initializer ?? value;
    } else if (ts.isFunctionDeclaration(node) && node.name?.text === expression.text) {
      const [returned] = node.body?.statements ?? [];
      if (returned !== undefined && ts.isReturnStatement(returned))
        value = returned.expression ?? value;
    }
    ts.forEachChild(node, visit);
  };
  visit(expression.getSourceFile());
  return value;
}
