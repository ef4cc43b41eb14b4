import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { projectRoot } from '../../project-root.js';

const parsed = new Map<string, ts.SourceFile>();

/** @param file - from the project's root. */
export function sourceOf(file: string): ts.SourceFile {
  const known = parsed.get(file);
  if (known !== undefined) return known;
  const text = readFileSync(join(projectRoot, file), 'utf8');
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.ES2022, true);
  parsed.set(file, source);
  return source;
}

/** The text of a declaration's comment before its tags, as Markdown on one line; '' without one. */
export function describedAs(node: ts.Node): string {
  const comment = ts.getJSDocCommentsAndTags(node).filter(ts.isJSDoc).at(-1);
  const text = ts.getTextOfJSDocComment(comment?.comment) ?? '';
  return text
    .replace(
      /\{@link (\w+)(?:\.(\w+))?\}/g,
      (_, name: string, member?: string) =>
        `\`${member === undefined ? name : `${name}.${member}`}\``,
    )
    .replace(/\s*\n\s*/g, ' ')
    .trim();
}

/** The first sentences, until they say enough for a table. */
export function inBrief(text: string, enough: number): string {
  const sentences = text.match(/[^]+?[.:](?=\s|$)/g) ?? [text];
  let brief = '';
  for (const sentence of sentences) {
    if (brief.length > enough) break;
    brief += sentence;
  }
  return brief.replace(/:$/, '.');
}
