import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { outsideEnvironment } from '../support/outside-environment.js';
import { projectRoot } from '../support/project-root.js';

const run = promisify(execFile);

/** Runs the program of `npm run lab -- chaos`. @returns what it prints to standard output, and its exit code. */
async function chaos(...args: string[]): Promise<{ stdout: string; code: number }> {
  const loader = join(projectRoot, 'test/support/typescript/register.mjs');
  const program = join(projectRoot, 'test/lab/chaos/main.ts');
  const small = ['--requests', '20', '--duplicates', '4', '--workers', '1', '--seed', '11'];
  const patience = ['--command-timeout-ms', '20000', '--save-timeout-ms', '20000'];
  try {
    const { stdout } = await run(
      process.execPath,
      ['--import', loader, program, ...small, ...patience, ...args],
      { env: outsideEnvironment(), timeout: 60_000 },
    );
    return { stdout, code: 0 };
  } catch (error) {
    const { stdout, code } = error as { stdout: string; code: number };
    return { stdout, code };
  }
}

describe('npm run lab -- chaos exits', () => {
  it('with 0 where the oracle has no objection', async () => {
    const { stdout, code } = await chaos();
    expect(stdout).toContain('The oracle has no objection.');
    expect(code).toBe(0);
  }, 90_000);

  it('with 1 where the workers do not store what they answer', async () => {
    const { stdout, code } = await chaos('--mutant', 'outcome-not-stored');
    expect(stdout).toMatch(/executed again/);
    expect(code).toBe(1);
  }, 90_000);

  it('with 2 where its arguments make no sense', async () => {
    expect(await chaos('--mutant', 'eclipse')).toEqual({ stdout: '', code: 2 });
  }, 90_000);
});
