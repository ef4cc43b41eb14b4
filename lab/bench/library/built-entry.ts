import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** Where an `import` finds an entry. */
interface Manifest {
  readonly exports: Readonly<Record<string, { readonly import: { readonly default: string } }>>;
}

/** Address of the file that an entry of a built library is: `.`, `./redis`. */
export function entryUrl(library: string, entry: string): string {
  const manifest = JSON.parse(readFileSync(join(library, 'package.json'), 'utf8')) as Manifest;
  const conditions = manifest.exports[entry];
  if (conditions === undefined) throw new Error(`The library in ${library} has no entry ${entry}.`);
  return pathToFileURL(join(library, conditions.import.default)).href;
}

/** Loads an entry of a built library. */
export function loadEntry<Entry>(library: string, entry: string): Promise<Entry> {
  return import(entryUrl(library, entry)) as Promise<Entry>;
}
