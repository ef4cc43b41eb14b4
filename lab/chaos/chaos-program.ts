import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { outsideEnvironment } from '../../test/support/processes/processes.js';
import { projectRoot } from '../../test/support/project-root.js';
import { typescriptNodeOptions } from '../../test/support/typescript/node-options.js';

const run = promisify(execFile);

/** A machine that is busy with other tests is not to be mistaken for a store that is down. */
export const TIMEOUT = ['--command-timeout-ms', '20000', '--save-timeout-ms', '20000'];

/** Runs the program of `npm run lab -- chaos`. @returns what it prints to standard output, and its exit code. */
export async function chaosProgram(...args: string[]): Promise<{ stdout: string; code: number }> {
  const program = join(projectRoot, 'lab/chaos/main.ts');
  try {
    const { stdout } = await run(
      process.execPath,
      [...typescriptNodeOptions, program, ...TIMEOUT, ...args],
      { env: outsideEnvironment(), timeout: 60_000 },
    );
    return { stdout, code: 0 };
  } catch (error) {
    const { stdout, code } = error as { stdout: string; code: number };
    return { stdout, code };
  }
}
