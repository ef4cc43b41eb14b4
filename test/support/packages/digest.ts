import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../project-root.js';

/** Files of the packages besides the built ones. */
export const SHIPPED = [
  'CHANGELOG.md',
  'LICENSE',
  'README.md',
  'SECURITY.md',
  'docs/README.md',
  'docs/explanation',
  'docs/getting-started',
  'docs/guides',
  'docs/operations',
  'docs/reference',
  'lua',
  'package.json',
  'packages/client/CHANGELOG.md',
  'packages/client/LICENSE',
  'packages/client/README.md',
  'packages/client/package.json',
  'schematics',
  'sql',
] as const;

/** The inputs of the build. */
export const SOURCES: readonly string[] = [
  ...SHIPPED,
  'lib',
  'nest-cli.json',
  'package-lock.json',
  'packages/client/lib',
  'packages/client/tsconfig.json',
  'rollup.config.js',
  'test/support/typescript/to-javascript.ts',
  'tsconfig.json',
];

/** Where `npm run build` writes the digest of the sources that it has built. */
export const DIGEST_FILE = join(projectRoot, 'build/digest');

/** The digest of all inputs of the packages. */
export function digestOfSources(): string {
  return digestOf(SOURCES);
}

/** @param paths - files and folders of the project. */
export function digestOf(paths: readonly string[]): string {
  const hash = createHash('sha256');
  for (const file of paths.flatMap(filesIn).sort()) {
    hash
      .update(`${file}\0`)
      .update(readFileSync(join(projectRoot, file)))
      .update('\0');
  }
  return hash.digest('hex');
}

function filesIn(path: string): string[] {
  if (statSync(join(projectRoot, path)).isFile()) return [path];
  const entries = readdirSync(join(projectRoot, path), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map(({ parentPath, name }) => join(parentPath, name).slice(projectRoot.length + 1));
}
