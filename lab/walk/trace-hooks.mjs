import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { moduleOf } from '../../test/support/typescript/hooks.mjs';

const library = new URL('../../lib/', import.meta.url).href;

/** Each function of `lib` says its file and name when it is entered. */
export async function load(url, context, next) {
  if (!url.startsWith(library) || !url.endsWith('.ts')) return next(url, context);
  const file = fileURLToPath(url);
  const text = await readFile(file, 'utf8');
  return moduleOf(traced(text, url.slice(library.length)), file);
}

function traced(text, path) {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  /** @type {{ at: number, text: string }[]} */
  const insertions = [];
  visit(source);
  let result = text;
  for (const { at, text: inserted } of insertions.sort((a, b) => b.at - a.at)) {
    result = result.slice(0, at) + inserted + result.slice(at);
  }
  return result;

  function visit(node) {
    if (ts.isFunctionLike(node) && node.body !== undefined) {
      const name = node.name?.getText(source) ?? (ts.isConstructorDeclaration(node) ? 'new' : '');
      const entered = `globalThis.entered(${JSON.stringify(path)}, ${JSON.stringify(name)}, ${node.pos})`;
      if (ts.isBlock(node.body)) {
        insertions.push({ at: node.body.getStart(source) + 1, text: ` ${entered};` });
      } else {
        insertions.push({ at: node.body.getStart(source), text: `(${entered}, ` });
        insertions.push({ at: node.body.getEnd(), text: ')' });
      }
    }
    ts.forEachChild(node, visit);
  }
}
