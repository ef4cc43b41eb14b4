import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { projectRoot } from '../../support/project-root.js';

const run = promisify(execFile);

/** A built library in a folder of its own, that nobody else builds, cleans or edits meanwhile. */
export interface BuiltLibrary {
  readonly folder: string;
  readonly remove: () => void;
}

/** Builds what lies in a checkout. */
export async function buildLibrary(source = projectRoot): Promise<BuiltLibrary> {
  const folder = mkdtempSync(join(tmpdir(), 'idempotency-bench-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    for (const part of ['package.json', 'lua', 'sql']) {
      cpSync(join(source, part), join(folder, part), { recursive: true });
    }
    symlinkSync(join(projectRoot, 'node_modules'), join(folder, 'node_modules'));
    await compile(source, join(folder, 'dist'));
    return { folder, remove };
  } catch (error) {
    remove();
    throw error;
  }
}

/** Builds a commit, without a trace in the checkout. */
export async function buildCommit(revision: string): Promise<BuiltLibrary> {
  const worktree = mkdtempSync(join(tmpdir(), 'idempotency-bench-commit-'));
  const git = (...args: string[]) => run('git', args, { cwd: projectRoot });
  await git('worktree', 'add', '--detach', worktree, revision);
  try {
    symlinkSync(join(projectRoot, 'node_modules'), join(worktree, 'node_modules'));
    return await buildLibrary(worktree);
  } finally {
    await git('worktree', 'remove', '--force', worktree);
  }
}

async function compile(source: string, outDir: string): Promise<void> {
  const compiler = join(projectRoot, 'node_modules/typescript/bin/tsc');
  const args = [compiler, '-p', join(source, 'tsconfig.json'), '--outDir', outDir];
  try {
    await run(process.execPath, args, { cwd: source });
  } catch (error) {
    const { stdout } = error as { stdout?: string };
    throw new Error(`The library does not compile:\n${stdout ?? String(error)}`, { cause: error });
  }
}
