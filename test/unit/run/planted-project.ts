import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { processesIn } from '../../support/processes/processes-in.js';
import { projectRoot } from '../../support/project-root.js';

const PROGRAM = join(projectRoot, 'test/run/main.mjs');

const POLLS = 100;
const POLL_MS = 20;

export interface Run {
  readonly status: number | null;
  readonly output: string;
  /** Processes that it has left behind. */
  readonly left: readonly number[];
  readonly verdict: { readonly passed: number; readonly failed: number; readonly flaky: string[] };
}

export interface RunOptions {
  readonly suite?: 'push' | 'all' | 'load';
  readonly args?: readonly string[];
  readonly env?: Readonly<NodeJS.ProcessEnv>;
  /**
   * The working directory.
   *
   * @defaultValue the project itself
   */
  readonly folder?: string;
  /** The output at which the program is to be ended. */
  readonly endAfter?: RegExp;
}

/** A folder with these files, in which `npm test` runs as it does here. */
export class PlantedProject {
  readonly folder = mkdtempSync(join(tmpdir(), 'planted-project-'));

  constructor(files: Readonly<Record<string, string>>) {
    this.write(files);
  }

  write(files: Readonly<Record<string, string>>): void {
    for (const [name, text] of Object.entries(files)) {
      const file = join(this.folder, name);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, text);
    }
  }

  run({
    suite = 'push',
    args = [],
    env = {},
    folder = '.',
    endAfter,
  }: RunOptions = {}): Promise<Run> {
    const verdict = join(this.folder, 'node_modules/verdict.json');
    this.write({ 'node_modules/verdict.json': 'null' });
    const { NODE_OPTIONS, CI, ...rest } = process.env;
    const child = spawn(process.execPath, [PROGRAM, suite, ...args], {
      cwd: join(this.folder, folder),
      env: { ...rest, TEST_VERDICT: verdict, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text;
        if (endAfter?.test(output) && !child.killed) child.kill('SIGTERM');
      });
    }
    return new Promise((resolve) => {
      child.once('close', (status) => {
        const written = JSON.parse(readFileSync(verdict, 'utf8')) as Run['verdict'];
        void this.#left().then((left) => resolve({ status, output, left, verdict: written }));
      });
    });
  }

  /** A killed process may take a while to exit. Only Linux shows its state. */
  async #left(): Promise<number[]> {
    if (process.platform !== 'linux') return [];
    for (let poll = 0; poll < POLLS && processesIn(this.folder).length > 0; poll++) {
      await delay(POLL_MS);
    }
    return processesIn(this.folder);
  }

  remove(): void {
    rmSync(this.folder, { recursive: true });
  }
}
