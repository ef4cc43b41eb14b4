import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * The entries of the package at `root` by the name that importers use, as paths below it:
 * `nestjs-idempotency/redis` → `{ source: 'lib/stores/redis/index.ts', built: 'dist/esm/stores/redis/index.js' }`.
 */
export function packageEntries(root) {
  const manifest = join(root, 'package.json');
  if (!existsSync(manifest)) return new Map();
  const { name, exports = {} } = JSON.parse(readFileSync(manifest, 'utf8'));
  return new Map(
    Object.entries(exports)
      .filter(([, entry]) => typeof entry === 'object')
      .map(([entry, { import: module }]) => {
        const built = join(module.default);
        const source = built.replace(/^dist\/esm\//, 'lib/').replace(/\.js$/, '.ts');
        return [join(name, entry), { source, built }];
      }),
  );
}
