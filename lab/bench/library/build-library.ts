import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { projectRoot } from '../../../test/support/project-root.js';

const run = promisify(execFile);

/** A built library in its own folder, which no other process builds, cleans or edits meanwhile. */
export interface BuiltLibrary {
  readonly folder: string;
  readonly remove: () => void;
}

/** What a build reads. */
const PARTS = ['package.json', 'tsconfig.json', 'rollup.config.js', 'lib', 'lua', 'sql'];

/** Builds what lies in the checkout, as it is published, or with maps that say which file a line is from. */
export async function buildLibrary({ withMaps = false } = {}): Promise<BuiltLibrary> {
  const folder = mkdtempSync(join(tmpdir(), 'idempotency-bench-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    for (const part of PARTS) {
      cpSync(join(projectRoot, part), join(folder, part), { recursive: true });
    }
    symlinkSync(join(projectRoot, 'node_modules'), join(folder, 'node_modules'));
    await inFolder(folder, 'typescript/bin/tsc');
    await inFolder(
      folder,
      'rollup/dist/bin/rollup',
      '--config',
      '--silent',
      ...(withMaps ? ['--sourcemap'] : []),
    );
    return { folder, remove };
  } catch (error) {
    remove();
    throw error;
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
