import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { packageEntries } from '../support/typescript/package-entries.mjs';

const TYPES = /^\s*(?:import|export) type [^;]*? from '[^']*';/gm;
const TEXT = /(['"`])((?:(?!\1)[\w./@${}():-])+)\1/g;

export const SOURCE = /\.(?:ts|mjs|js|cjs)$/;

/** What each file names, by file: many files load the same one. */
const named = new Map();

/**
 * What files of this checkout load, and what these do: imports, and any other file that a string in them
 * names, from its own folder or from the root, as `new URL('worker.ts', import.meta.url)` does.
 *
 * @param files - below `root`.
 * @returns paths below `root`, the files themselves first. A named folder has a path that ends with `/`.
 */
export function closureOf(files, root) {
  const found = new Set(files.map((file) => relative(root, resolve(root, file))));
  for (const path of found) {
    if (!SOURCE.test(path)) continue;
    const file = join(root, path);
    if (!named.has(file)) named.set(file, namedIn(file, root));
    for (const one of named.get(file)) found.add(one);
  }
  return [...found];
}

function namedIn(file, root) {
  const entries = entriesOf(root);
  const code = readFileSync(file, 'utf8').replaceAll(TYPES, '');
  const texts = [...code.matchAll(TEXT)].map(([, , text]) => text);
  return texts.flatMap((text) => {
    const name = text.replace('${extname(import.meta.url)}', '.ts');
    const entry = entries.get(name);
    if (entry !== undefined) return entry.source;
    const isRelative = /^\.{1,2}(?:\/|$)/.test(name);
    const places = isRelative ? [dirname(file)] : [dirname(file), root];
    const paths = places.map((place) => resolve(place, name)).flatMap(asSource);
    return paths.flatMap((path) => pathBelow(root, path, file, name)).slice(0, 1);
  });
}

function asSource(path) {
  return [path.replace(/\.js$/, '.ts'), path].filter(existsSync);
}

function pathBelow(root, path, namedBy, name) {
  const below = relative(root, path);
  if (/^$|^\.\.|^(?:build|coverage|dist|node_modules)(?:\/|$)/.test(below)) return [];
  if (statSync(path).isFile()) return below;
  // A bare word is not a folder, nor is the beginning of a path that continues elsewhere.
  return name.includes('/') && !namedBy.startsWith(`${path}/`) ? `${below}/` : [];
}

const entriesByRoot = new Map();

/** The package's own names: `nestjs-idempotency/redis` is `lib/stores/redis/index.ts`. */
function entriesOf(root) {
  if (!entriesByRoot.has(root)) entriesByRoot.set(root, packageEntries(root));
  return entriesByRoot.get(root);
}
