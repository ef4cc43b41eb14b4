import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { projectRoot } from '../../../support/project-root.js';

const run = promisify(execFile);

/** A built library in a folder of its own, that nobody else builds, cleans or edits meanwhile. */
export interface BuiltLibrary {
  readonly folder: string;
  readonly remove: () => void;
}

/** Of the second step of a build; older commits have one only. */
const CONFIG = 'rollup.config.js';
/** What a build reads, now or in older commits. */
const PARTS = ['package.json', 'tsconfig.json', CONFIG, 'lib', 'lua', 'sql'];

/** Builds what lies in a checkout. */
export async function buildLibrary(source = projectRoot): Promise<BuiltLibrary> {
  const folder = mkdtempSync(join(tmpdir(), 'idempotency-bench-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    for (const part of PARTS.filter((name) => existsSync(join(source, name)))) {
      cpSync(join(source, part), join(folder, part), { recursive: true });
    }
    symlinkSync(join(projectRoot, 'node_modules'), join(folder, 'node_modules'));
    await inFolder(folder, 'typescript/bin/tsc');
    if (existsSync(join(folder, CONFIG))) {
      await inFolder(folder, 'rollup/dist/bin/rollup', '--config', '--silent');
    }
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

async function inFolder(folder: string, tool: string, ...args: string[]): Promise<void> {
  try {
    await run(process.execPath, [join(projectRoot, 'node_modules', tool), ...args], {
      cwd: folder,
    });
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`The library does not compile:\n${stdout}${stderr}`, { cause: error });
  }
}
