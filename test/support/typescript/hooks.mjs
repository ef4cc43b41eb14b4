import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { transformFile } from '@swc/core';

const root = new URL('../../../', import.meta.url);
/** A folder of `builtPackage()`, where the files themselves are needed as JavaScript: a browser loads them. */
const built = process.env.BUILT_PACKAGE;
const { name, exports } = JSON.parse(await readFile(new URL('package.json', root), 'utf8'));

/** The source of each entry of the package: nothing has to be built, and nothing stale is read. */
const ENTRIES = new Map(
  Object.entries(exports).flatMap(([entry, { import: module }]) => {
    if (module === undefined) return [];
    const file =
      built === undefined
        ? new URL(module.default.replace('./dist/esm/', 'lib/').replace(/\.js$/, '.ts'), root)
        : pathToFileURL(join(built, module.default));
    return [[name + entry.slice(1), file.href]];
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
  const { code } = await transformFile(fileURLToPath(url), {
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
