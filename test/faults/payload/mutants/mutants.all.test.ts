import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify, stripVTControlCharacters } from 'node:util';
import { expect, it } from '@jest/globals';
import { useServer } from '../../../support/servers/use-server.js';
import { outsideEnvironment } from '../../../support/processes/processes.js';
import { projectRoot } from '../../../support/project-root.js';
import { PAYLOAD_MISTAKES, type PayloadMistake } from './mistakes.js';

const JEST = createRequire(import.meta.url).resolve('jest/bin/jest');
/** Of a suite that waits for what a mistake keeps away. */
const LIMIT_MS = 240_000;

/** A copy of what the suites need, in which a file can be changed. */
class Copy {
  private constructor(private readonly root: string) {}

  static async make(): Promise<Copy> {
    const root = await realpath(await mkdtemp(join(tmpdir(), 'idempotency-mutants-')));
    for (const name of ['package.json', 'jest.config.js', 'lib', 'test', 'lab/faults', 'docs']) {
      await cp(join(projectRoot, name), join(root, name), { recursive: true });
    }
    await mkdir(join(root, 'examples'));
    await symlink(join(projectRoot, 'node_modules'), join(root, 'node_modules'));
    return new Copy(root);
  }

  stop(): Promise<void> {
    return rm(this.root, { recursive: true });
  }

  /** The tests of the suite that fail with the mistake. */
  async failuresWith({ file, change, suite }: PayloadMistake): Promise<string[]> {
    const path = join(this.root, file);
    const original = await readFile(path, 'utf8');
    const parts = original.split(change[0]);
    if (parts.length !== 2) throw new Error(`${file} must contain once: ${change[0]}`);
    await writeFile(path, parts.join(change[1]));
    try {
      return await this.failuresOf(suite);
    } finally {
      await writeFile(path, original);
    }
  }

  private async failuresOf(suite: string): Promise<string[]> {
    const args = ['--selectProjects', 'push', '--runInBand', '--testTimeout', '10000', suite];
    const run = promisify(execFile)(process.execPath, [JEST, ...args], {
      cwd: this.root,
      env: { ...outsideEnvironment(), NODE_OPTIONS: '--experimental-vm-modules' },
      maxBuffer: 2 ** 26,
      timeout: LIMIT_MS,
    });
    const { stderr } = await run.catch((error: unknown) => error as { stderr: string });
    const lines = stripVTControlCharacters(stderr).split('\n');
    return lines.filter((line) => line.startsWith('  ● '));
  }
}

const copy = useServer(() => Copy.make());

// Each suite is one of `npm test`, which has no objection to the library as it is.
it.each(PAYLOAD_MISTAKES)(
  '$suite objects when $mistake',
  async (mistake) => {
    const failures = await copy.failuresWith(mistake);
    expect(failures).toContainEqual(expect.stringContaining(String(mistake.objection)));
  },
  // The file is put back before the next mistake.
  LIMIT_MS + 30_000,
);
