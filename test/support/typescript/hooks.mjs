import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { transform } from '@swc/core';
import { packageEntries } from './package-entries.mjs';

const root = fileURLToPath(new URL('../../../', import.meta.url));
/** A folder of `builtPackage()`, where the files themselves are needed as JavaScript: a browser loads them. */
const builtPackage = process.env.BUILT_PACKAGE;

/** The source of each entry of the package: nothing has to be built, and nothing stale is read. */
const ENTRIES = new Map(
  [...packageEntries(root)].map(([name, { source, built }]) => {
    const file = builtPackage === undefined ? join(root, source) : join(builtPackage, built);
    return [name, pathToFileURL(file).href];
  }),
);

export function resolve(specifier, context, next) {
  const entry = ENTRIES.get(specifier);
  if (entry !== undefined) return next(entry, context);
  const fromTypeScript = context.parentURL?.endsWith('.ts') ?? false;
  if (fromTypeScript && specifier.startsWith('.')) {
    return next(specifier.replace(/\.js$/, '.ts'), context);
  }
  return next(specifier, context);
}

export async function load(url, context, next) {
  if (!url.endsWith('.ts')) return next(url, context);
  const file = fileURLToPath(url);
  return moduleOf(await readFile(file, 'utf8'), file);
}

/** What `load` returns for a file of TypeScript with this text. */
export async function moduleOf(text, filename) {
  const { code } = await transform(text, {
    filename,
    swcrc: false,
    sourceMaps: 'inline',
    jsc: {
      target: 'es2022',
      parser: { syntax: 'typescript', decorators: true },
      transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: true },
      keepClassNames: true,
    },
    module: { type: 'es6' },
  });
  return { format: 'module', source: code, shortCircuit: true };
}
