import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

const TYPES = /^\s*(?:import|export) type [^;]*? from '[^']*';/gm;
const TEXT = /(['"`])((?:(?!\1)[\w./@${}():-])+)\1/g;
const SOURCE = /\.(?:ts|mjs|js|cjs)$/;

/**
 * What files of this checkout load, and what these do: imports, and whatever else a text in them names, from its own folder
 * or from the root, as `new URL('worker.ts', import.meta.url)` does.
 *
 * @param files - below `root`.
 * @returns paths below `root`, the files themselves first. What is named may be a folder.
 */
export function closureOf(files, root) {
  const entries = entriesOf(root);
  const found = new Set(files.map((file) => relative(root, resolve(root, file))));
  for (const file of found) {
    if (!SOURCE.test(file)) continue;
    for (const path of namedIn(join(root, file), root, entries)) found.add(path);
  }
  return [...found];
}

function namedIn(file, root, entries) {
  const text = readFileSync(file, 'utf8').replaceAll(TYPES, '');
  const paths = [...text.matchAll(TEXT)].map(([, , named]) => named);
  return paths.flatMap((named) => {
    const name = named.replace('${extname(import.meta.url)}', '.ts');
    const entry = entries.get(name);
    if (entry !== undefined) return entry;
    const near = name.includes('.') ? [resolve(dirname(file), name)] : [];
    const fromRoot = name.includes('/') && !name.startsWith('.') ? [resolve(root, name)] : [];
    const path = [...near, ...fromRoot].flatMap(asSource).find((one) => isBelow(one, root));
    return path === undefined ? [] : relative(root, path);
  });
}

function asSource(path) {
  return [path.replace(/\.js$/, '.ts'), path].filter(existsSync);
}

function isBelow(path, root) {
  const name = relative(root, path);
  const isOutside = /^$|^\.\.|^(?:build|coverage|dist|node_modules)(?:\/|$)/.test(name);
  return !isOutside && (statSync(path).isFile() || !SOURCE.test(path));
}

/** The package's own names: `nestjs-idempotency/redis` is `lib/stores/redis/index.ts`. */
function entriesOf(root) {
  const manifest = join(root, 'package.json');
  if (!existsSync(manifest)) return new Map();
  const { name, exports = {} } = JSON.parse(readFileSync(manifest, 'utf8'));
  const entries = Object.entries(exports).filter(([, entry]) => typeof entry === 'object');
  return new Map(
    entries.map(
      ([
        entry,
        {
          import: { default: file },
        },
      ]) => [join(name, entry), file.replace(/^\.\/dist\/esm\//, 'lib/').replace(/\.js$/, '.ts')],
    ),
  );
}
