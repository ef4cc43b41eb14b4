import { cp, mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { projectRoot } from '../project-root.js';

/** Files of a made-up project: path → text. */
export type Tree = Readonly<Record<string, string>>;

/** What a tool reports. */
export interface Finding {
  readonly rule: string;
  readonly file: string;
  readonly message: string;
}

/** Writes a project that consists of `tree` and this project's own settings of TypeScript. */
export async function plant(tree: Tree): Promise<{ root: string; remove: () => Promise<void> }> {
  const root = await realpath(await mkdtemp(join(tmpdir(), 'idempotency-planted-')));
  for (const file of ['tsconfig.json', 'test/tsconfig.json']) {
    await cp(join(projectRoot, file), join(root, file));
  }
  for (const [path, text] of Object.entries(tree)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
  return { root, remove: () => rm(root, { recursive: true, force: true }) };
}
