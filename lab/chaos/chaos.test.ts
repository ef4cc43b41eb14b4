import { describe, expect, it } from '@jest/globals';
import { chaosProgram } from './chaos-program.js';

const FAULTS = ['lost replies', 'CLIENT KILL', 'SCRIPT FLUSH'];

/** The longer runs are in chaos.all.test.ts. */
describe('npm run lab -- chaos', () => {
  it('loses replies, connections and scripts, has no objection, and exits with 0', async () => {
    const { stdout, code } = await chaosProgram(
      ...['--requests', '200', '--duplicates', '10', '--workers', '2', '--seed', '11'],
      ...['--faults', 'lost-replies,client-kill,script-flush'],
    );

    expect(stdout).toContain('The oracle has no objection.');
    expect(code).toBe(0);
    const figures = new Map<unknown, unknown>(
      [...stdout.matchAll(/^(\S.*?) {2,}(\S+)/gm)].map(([, name, value]) => [name, value]),
    );
    for (const fault of FAULTS) expect(Number(figures.get(fault))).toBeGreaterThan(0);
    expect(Number(figures.get('keys'))).toBeGreaterThanOrEqual(20);
    expect(figures.get('executions')).toBe(figures.get('keys'));
  }, 90_000);

  it('exits with 2 for invalid arguments', async () => {
    expect(await chaosProgram('--mutant', 'eclipse')).toEqual({ stdout: '', code: 2 });
  }, 90_000);
});
