import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Check } from './checks.js';

const MODEL = new URL('record.pml', import.meta.url);

/** What one run may take; one that needs more has not ended, and shows nothing. */
const LIMITS = { megabytes: 8_000, ms: 600_000 };

export interface Verdict {
  readonly isAsExpected: boolean;
  /** In words. */
  readonly found: string;
  readonly states: number;
  readonly megabytes: number;
  readonly seconds: number;
}

/**
 * Runs a check through spin and the C compiler: every state that its bounds allow, unless there is an error before.
 *
 * @throws where the model or the program that spin makes of it does not compile.
 */
export function runCheck({ definitions, expected, isLiveness = false }: Check): Verdict {
  const folder = mkdtempSync(join(tmpdir(), 'record-model-'));
  try {
    const run = (program: string, ...args: string[]) =>
      spawnSync(program, args, { cwd: folder, encoding: 'utf8', timeout: LIMITS.ms });
    const build = (program: string, ...args: string[]) => {
      const { status, stdout, stderr, error } = run(program, ...args);
      if (status !== 0) throw error ?? new Error(`${program} failed:\n${stdout}${stderr}`);
    };
    writeFileSync(join(folder, 'record.pml'), readFileSync(MODEL));
    build('spin', '-a', ...definitions.map((definition) => `-D${definition}`), 'record.pml');
    const kind = isLiveness ? ['-DNFAIR=4'] : ['-DSAFETY'];
    const limits = [`-DMEMLIM=${LIMITS.megabytes}`, '-DVECTORSZ=2048', '-DCOLLAPSE'];
    build('gcc', '-O2', '-w', ...limits, ...kind, '-o', 'pan', 'pan.c');
    const startedAt = performance.now();
    const { stdout } = run('./pan', ...(isLiveness ? ['-a', '-f'] : []), '-m3000000', '-w24');
    const seconds = (performance.now() - startedAt) / 1000;
    return { ...failureActionOf(stdout, expected), seconds };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function failureActionOf(output: string, expected: Check['expected']): Omit<Verdict, 'seconds'> {
  const found = foundIn(output);
  return {
    isAsExpected: found === expected,
    found,
    states: Number(/(\d+) states, stored/.exec(output)?.[1] ?? 0),
    megabytes: Math.round(Number(/([\d.]+)\s+total actual memory usage/.exec(output)?.[1] ?? 0)),
  };
}

function foundIn(output: string): string {
  const error = /^pan:\d+: (.*?) \(at depth/m.exec(output)?.[1];
  // Anything else, a deadlock say, is a mistake of the model.
  if (error !== undefined) {
    return /assertion violated|acceptance cycle/.test(error) ? 'a counterexample' : error;
  }
  const isExhausted =
    output.includes('errors: 0') &&
    !/out of memory|max search depth too small|Search not completed|aborted/.test(output);
  return isExhausted ? 'no error' : 'not exhausted';
}
