import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

/**
 * A package of lab/bench/package.json. It is not there before the first run, and its declarations neither: hence no
 * import that the compiler would look for.
 */
export function loadPackage(name: string): unknown {
  return require(name);
}

export function versionOf(name: string): string {
  // Not every package lets its package.json be loaded by name.
  for (const folder of require.resolve.paths(name) ?? []) {
    try {
      return (require(`${folder}/${name}/package.json`) as { version: string }).version;
    } catch {
      continue;
    }
  }
  throw new Error(`${name} is not installed`);
}
