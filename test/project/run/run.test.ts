import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { projectRoot } from '../../support/project-root.js';

jest.setTimeout(60_000);

const CONFIG = `module.exports = { projects: [{ displayName: 'push', testMatch: ['**/*.test.ts'], transform: {} }] };`;
const FAILS_ONCE = `const { existsSync, writeFileSync } = require('node:fs');
it('fails once', () => {
  const isSecond = existsSync(__filename + '.ran');
  writeFileSync(__filename + '.ran', '');
  const error = new Error('in a circle');
  error.error = error;
  if (!isSecond) throw error;
});`;
const FAILS = `it('fails', () => { throw new Error('as always'); });`;
const PASSES = `it('passes', () => undefined);`;
const HANGS = `it('hangs', () => { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); });`;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'planted-project-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function plant(name: string, text: string): void {
  mkdirSync(join(folder, name, '..'), { recursive: true });
  writeFileSync(join(folder, name), text, { mode: 0o755 });
}

interface RunOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<NodeJS.ProcessEnv>;
  /** The output at which it is to be ended. */
  readonly endAfter?: RegExp;
}

/** Runs `npm test` over a project of these tests of units, in one process unless `args` says otherwise. */
function runTests(
  files: Readonly<Record<string, string>>,
  { args = ['-i'], env = {}, endAfter }: RunOptions = {},
): Promise<{ status: number | null; output: string; lines: string[] }> {
  plant('jest.config.cjs', CONFIG);
  for (const [name, text] of Object.entries(files)) plant(`test/${name}.test.ts`, text);
  const { NODE_OPTIONS, CI, ...rest } = process.env;
  const program = join(projectRoot, 'test/run.mjs');
  const child = spawn(process.execPath, [program, 'push', ...args], {
    cwd: folder,
    env: { ...rest, ...env },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      if (endAfter?.test(output) === true && !child.killed) child.kill('SIGTERM');
    });
  }
  return new Promise((resolve) => {
    child.once('close', (status) => {
      resolve({ status, output, lines: output.trimEnd().split('\n').slice(-4) });
    });
  });
}

const end = (passed: number, failed: number, flaky = 'none') => [
  `flaky: ${flaky}`,
  expect.stringMatching(/^time: \d+\.\d s(, CPU: \d+\.\d s)?$/),
  `tests: ${passed} passed, ${failed} failed`,
];

describe('npm test', () => {
  it('runs a failed file once more, and names it as flaky with its first failure', async () => {
    const { status, output, lines } = await runTests({
      'unit/a': PASSES,
      'unit/b': FAILS_ONCE,
    });
    expect(output).toMatch(/FLAKY test\/unit\/b\.test\.ts:\n[^]*fails once[^]*in a circle/);
    expect(lines.slice(-3)).toEqual(end(1, 0, 'test/unit/b.test.ts'));
    expect(status).toBe(0);
  });

  it.each([
    ['a file fails again', { a: FAILS_ONCE, b: FAILS }, [], end(0, 1, 'test/unit/a.test.ts')],
    ['a file cannot be loaded', { a: PASSES, b: `require('./absent');` }, [], end(1, 1)],
    [
      'more than two files fail, though each passes by itself',
      { a: FAILS_ONCE, b: FAILS_ONCE, c: FAILS_ONCE },
      [],
      end(0, 3),
    ],
    ['a file that runs alone fails', { a: PASSES, b: FAILS_ONCE }, ['unit/b'], end(0, 1)],
    [
      'Jest fails besides',
      { a: PASSES, b: PASSES, teardown: `throw new Error('no teardown');` },
      ['--globalTeardown=./test/unit/teardown.test.ts', 'unit/a', 'unit/b'],
      end(2, 1),
    ],
  ])('fails where %s', async (_, files, args, lastLines) => {
    const named = Object.entries(files).map(([name, text]) => [`unit/${name}`, text]);
    const { status, lines } = await runTests(Object.fromEntries(named) as Record<string, string>, {
      args: ['-i', ...args],
    });
    expect(lines.slice(-3)).toEqual(lastLines);
    expect(status).toBe(1);
  });

  it('fails where no file matches', async () => {
    const { status, output } = await runTests({ 'unit/a': PASSES }, { args: ['absent'] });
    expect(output).toContain('No test file matches absent');
    expect(status).toBe(1);
  });

  it('has a result where it is ended, with the file that hangs', async () => {
    const files = { 'unit/a': PASSES, 'unit/b': HANGS };
    const { status, lines } = await runTests(files, { args: [], endAfter: /PASS push/ });
    expect(lines).toEqual(['failed: test/unit/b.test.ts', ...end(1, 1)]);
    expect(status).toBe(1);
  });

  it.each([
    { CI: undefined, code: 0, does: 'goes on' },
    { CI: 'true', code: 1, does: 'fails' },
  ])('$does without a program that the files need, with CI=$CI', async ({ CI, code }) => {
    plant('package.json', `{ "scripts": { "provision": "echo needs $* >&2; exit 3; :" } }`);
    const { status, output } = await runTests({ 'e2e/a': PASSES }, { env: { CI } });
    expect(output.includes('In CI no tests may be left out')).toBe(CI !== undefined);
    expect(status).toBe(code);
  });
});

describe('npm run test:all', () => {
  it('has a project for each file that npm test leaves out', () => {
    const files = ['examples', 'lab', 'test'].flatMap((folder) =>
      readdirSync(join(projectRoot, folder), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.all.test.ts') && !name.includes('node_modules'))
        .map((name) => join(projectRoot, folder, name)),
    );
    const { NODE_OPTIONS, ...env } = process.env;
    const args = [join(projectRoot, 'test/run.mjs'), 'all', '--listTests'];
    const { stdout } = spawnSync(process.execPath, args, {
      cwd: projectRoot,
      env,
      encoding: 'utf8',
    });
    const listed = new Set(stdout.split('\n'));
    expect(files).not.toEqual([]);
    expect(files.filter((file) => !listed.has(file))).toEqual([]);
  });
});

/** Runs CI with an npm that only executes these lines of a script. */
function runCi(npm: string) {
  cpSync(join(projectRoot, '.ci'), join(folder, '.ci'), { recursive: true });
  const script = (text: string) => `#!/bin/sh\n${text}\nexit 0\n`;
  plant('bin/npm', script(npm));
  plant('bin/npx', script(''));
  const PATH = [join(folder, 'bin'), process.env.PATH].join(delimiter);
  const options = { env: { ...process.env, PATH }, encoding: 'utf8' } as const;
  const { status, stdout } = spawnSync(join(folder, '.ci/run'), options);
  return { status, stdout, lastLine: stdout.trimEnd().split('\n').at(-1) };
}

describe('CI', () => {
  const printed = (passed: number, failed: number) =>
    `echo "flaky: none"; echo "tests: ${passed} passed, ${failed} failed"`;

  it('sums up both runs, and names the time of each step', () => {
    const { status, lastLine, stdout } = runCi(`case "$*" in
test*) ${printed(5, 0)} ;;
*test:all*) ${printed(2, 0)} ;;
esac`);
    expect(lastLine).toBe('7 passed, 0 failed');
    expect(stdout).toMatch(/^== tests: \d+ s$/m);
    expect(status).toBe(0);
  });

  it('counts failed tests and failed steps', () => {
    const { status, lastLine } = runCi(`case "$*" in
test*) ${printed(5, 3)}; exit 1 ;;
*test:all*) ${printed(2, 1)}; exit 1 ;;
*lint*) exit 1 ;;
esac`);
    expect(lastLine).toBe('7 passed, 5 failed');
    expect(status).toBe(1);
  });

  it.each(['exit 1', 'exit 0'])('fails where the runs have no verdict, and %s', (how) => {
    const { status, lastLine } = runCi(`case "$*" in *test*) ${how} ;; esac`);
    expect(lastLine).toBe('0 passed, 2 failed');
    expect(status).toBe(1);
  });
});
