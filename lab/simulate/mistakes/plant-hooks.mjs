import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { moduleOf } from '../../../test/support/typescript/hooks.mjs';

const root = new URL('../../../', import.meta.url);
/** @type {readonly import('./mistake.js').Mistake[]} */
let mistakes = [];
/** What all graphs have in common. */
const loaded = new Map();

export function initialize(planted) {
  mistakes = planted;
}

/** What a module with a mistake imports from this checkout has the mistake, too: a graph of its own for each. */
export async function resolve(specifier, context, next) {
  const importer = parsed(context.parentURL ?? '');
  const imported = parsed(specifier);
  const index = imported.index ?? importer.index;
  const found = await next(imported.url, {
    ...context,
    parentURL: importer.url || undefined,
  });
  const isOwn = found.url.startsWith(root.href) && !found.url.includes('/node_modules/');
  return isOwn && index !== undefined ? { ...found, url: `${found.url}?mistake=${index}` } : found;
}

export async function load(url, context, next) {
  const { url: plain, index } = parsed(url);
  const mistake = mistakes[index];
  if (mistake === undefined || plain !== new URL(mistake.file, root).href) {
    if (!loaded.has(plain)) loaded.set(plain, next(plain, context));
    return loaded.get(plain);
  }
  const [original, changed] = mistake.change;
  const file = fileURLToPath(plain);
  const parts = (await readFile(file, 'utf8')).split(original);
  if (parts.length !== 2) throw new Error(`${mistake.file} must contain once: ${original}`);
  return moduleOf(parts.join(changed), file);
}

function parsed(url) {
  const [plain, index] = url.split('?mistake=');
  return { url: plain, index };
}
