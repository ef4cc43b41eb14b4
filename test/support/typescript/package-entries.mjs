import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * The entries of the package at `root` and of those of its workspace, by the name that importers use, as paths below it:
 * `nestjs-idempotency/redis` → `{ source: 'lib/stores/redis/index.ts', built: 'dist/esm/stores/redis/index.js' }`.
 */
export function packageEntries(root) {
  const { workspaces = [] } = manifestIn(root);
  return new Map(['', ...workspaces].flatMap((folder) => entriesOf(root, folder)));
}

function entriesOf(root, folder) {
  const { name, exports = {} } = manifestIn(join(root, folder));
  return Object.entries(exports)
    .filter(([, entry]) => typeof entry === 'object')
    .map(([entry, { import: module }]) => {
      const built = join(module.default);
      const source = built.replace(/^dist\/esm\//, 'lib/').replace(/\.js$/, '.ts');
      return [join(name, entry), { source: join(folder, source), built: join(folder, built) }];
    });
}

function manifestIn(folder) {
  const file = join(folder, 'package.json');
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
}
