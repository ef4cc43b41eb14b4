import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findCompiler } from '../../test/support/clocks/compiler.js';
import { findSpin } from '../../test/support/provision/spin.js';
import type { Check } from './checks.js';

const FOLDER = fileURLToPath(new URL('.', import.meta.url));

/** What one run may take; one that needs more has not ended, and shows nothing. */
const LIMITS = { megabytes: 8_000, ms: 600_000 };

export interface Verdict {
  readonly isAsExpected: boolean;
  /** In words. */
  readonly found: Check['expected'] | (string & {});
  readonly states: number;
  readonly megabytes: number;
  readonly seconds: number;
}

/** A copy of the model, in which spin and the C compiler can write. */
export class Model {
  /** Of spin. */
  readonly version: string;
  private readonly spin: string;
  private readonly folder = mkdtempSync(join(tmpdir(), 'protocol-model-'));

  /** @throws where spin is not installed. */
  constructor() {
    const found = findSpin();
    if (found === undefined) throw new Error('spin was not found: npm run provision -- spin');
    this.spin = found.command;
    this.version = found.version.replace('Spin Version ', '');
    for (const file of readdirSync(FOLDER).filter((name) => name.endsWith('.pml'))) {
      copyFileSync(join(FOLDER, file), join(this.folder, file));
    }
  }

  remove(): void {
    rmSync(this.folder, { recursive: true });
  }

  /**
   * Explores every state that the check's bounds allow, unless there is an error before.
   *
   * @throws where the model or the program that spin makes of it does not compile.
   */
  verify({ file, definitions, expected, isLiveness = false, isLong = false }: Check): Verdict {
    const isMistake = expected === 'a counterexample';
    // The trail of a counterexample counts the statements, those that print too.
    const trace = isMistake ? ['-DTRACE'] : [];
    this.succeed(this.spin, '-a', ...trace, ...defined(definitions), file);
    const kind = isLiveness ? ['-DNFAIR=4'] : ['-DSAFETY'];
    const limits = [`-DMEMLIM=${LIMITS.megabytes}`, '-DVECTORSZ=2048', '-DCOLLAPSE'];
    // To compile it takes 0.8, 2.8 and 8 seconds; to run it, the first needs half as much again as the others.
    const optimization = isMistake ? '-O0' : isLong ? '-O2' : '-Og';
    const compiler = findCompiler()?.command ?? 'gcc';
    this.succeed(compiler, optimization, '-w', ...limits, ...kind, '-o', 'pan', 'pan.c');
    const startedAt = performance.now();
    const { stdout } = this.run('./pan', ...(isLiveness ? ['-a', '-f'] : []), '-m3000000', '-w24');
    const seconds = (performance.now() - startedAt) / 1000;
    const found = foundIn(stdout);
    return {
      isAsExpected: found === expected,
      found,
      states: Number(/(\d+) states, stored/.exec(stdout)?.[1] ?? 0),
      megabytes: Math.round(Number(/([\d.]+)\s+total actual memory usage/.exec(stdout)?.[1] ?? 0)),
      seconds,
    };
  }

  /** What the model prints on the way to the counterexample that {@link verify} has found. */
  counterexample({ file, definitions }: Check): string {
    // It ends with the error that the model has.
    return this.run(this.spin, '-t', '-T', '-DTRACE', ...defined(definitions), file).stdout;
  }

  /** What the model prints in one history that `seed` chooses. */
  history(definitions: readonly string[], seed: number): string {
    const options = [`-n${seed}`, '-u50000', '-T', '-DTRACE'];
    return this.succeed(this.spin, ...options, ...defined(definitions), 'protocol.pml');
  }

  /** What each command does to each record. */
  table(definitions: readonly string[]): string {
    return this.succeed(this.spin, '-T', ...defined(definitions), 'table.pml');
  }

  private run(program: string, ...args: string[]) {
    const limits = { timeout: LIMITS.ms, maxBuffer: 1e8 };
    return spawnSync(program, args, { cwd: this.folder, encoding: 'utf8', ...limits });
  }

  private succeed(program: string, ...args: string[]): string {
    const { status, stdout, stderr, error } = this.run(program, ...args);
    if (status !== 0) throw error ?? new Error(`${program} failed:\n${stdout}${stderr}`);
    return stdout;
  }
}

/** A line of a run's result, with its bounds. */
export function lineOf({ name, file, definitions }: Check, verdict: Verdict): string {
  const { isAsExpected, found, states, megabytes, seconds } = verdict;
  return [
    isAsExpected ? 'ok   ' : 'WRONG',
    name.padEnd(39),
    found.padEnd(16),
    `${states.toLocaleString('en')} states`.padStart(18),
    `${megabytes.toLocaleString('en')} MB`.padStart(9),
    `${seconds.toFixed(1)} s`.padStart(8),
    ` ${file} ${definitions.join(' ')}`,
  ].join(' ');
}

function defined(definitions: readonly string[]): string[] {
  return definitions.map((definition) => `-D${definition}`);
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
