import { join } from 'node:path';
import { describe, expect, it, jest } from '@jest/globals';
import { projectRoot } from '../../support/project-root.js';
import { PlantedProject, type RunOptions } from './planted-project.js';

jest.setTimeout(120_000);

const environment = join(projectRoot, 'test/run/environment.mjs');
const sequencer = join(projectRoot, 'test/run/sequencer.mjs');
const CONFIG = `module.exports = { projects: [{ displayName: 'push', testMatch: ['**/*.spec.cjs'], transform: {},
  testEnvironment: ${JSON.stringify(environment)} }], testSequencer: ${JSON.stringify(sequencer)} };`;
const FAILS_ONCE = `const { existsSync, writeFileSync } = require('node:fs');
it('fails once', () => {
  const isSecond = existsSync(__filename + '.ran');
  writeFileSync(__filename + '.ran', '');
  expect(isSecond).toBe(true);
});`;
const FAILS_ONCE_IN_A_CIRCLE = FAILS_ONCE.replace(
  'expect(isSecond).toBe(true);',
  "const error = new Error('in a circle'); error.error = error; if (!isSecond) throw error;",
);
const FAILS = `it('fails', () => { throw new Error('as always'); });`;
const PASSES = `it('passes', () => undefined);`;
const HANGS = `it('hangs', () => { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); });`;
const BURNS = `it('burns', () => { const start = process.cpuUsage(); while (process.cpuUsage(start).user < 200_000); });`;
const CHILD_BURNS = `it('lets a child burn', () => {
  require('node:child_process').spawnSync('node', ['-e', 'while (process.cpuUsage().user < 200_000);']);
});`;

/** Runs `npm test` over a project of these files. */
async function runTests(files: Readonly<Record<string, string>>, options?: RunOptions) {
  const specs = Object.entries(files).map(([name, text]) => [`${name}.spec.cjs`, text]);
  const project = new PlantedProject({
    'jest.config.cjs': CONFIG,
    ...(Object.fromEntries(specs) as Record<string, string>),
  });
  try {
    // One process less, unless two are wanted.
    return await project.run({ args: ['--runInBand'], ...options });
  } finally {
    project.remove();
  }
}

describe('npm test', () => {
  it('passes where every file does', async () => {
    const { status, verdict, output } = await runTests({ a: PASSES, b: PASSES });
    expect(verdict).toEqual({ passed: 2, failed: 0, flaky: [] });
    expect(output).toMatch(/^tests: 2 passed, 0 failed\ntime: .*\n[^]*^flaky: none$/m);
    expect(status).toBe(0);
  });

  it('runs a failed file once more, and names it as flaky with its first failure', async () => {
    const { status, output, verdict } = await runTests({ a: PASSES, b: FAILS_ONCE });
    expect(verdict).toEqual({ passed: 1, failed: 0, flaky: ['b.spec.cjs'] });
    expect(output).toMatch(/FLAKY b\.spec\.cjs:\n[^]*fails once[^]*toBe/);
    expect(output).toMatch(/^flaky: b\.spec\.cjs$/m);
    expect(status).toBe(0);
  });

  it('handles a failure whose error is circular', async () => {
    const { status, verdict } = await runTests({ a: PASSES, b: FAILS_ONCE_IN_A_CIRCLE });
    expect(verdict).toEqual({ passed: 1, failed: 0, flaky: ['b.spec.cjs'] });
    expect(status).toBe(0);
  });

  it('fails where a file fails again', async () => {
    const { status, verdict } = await runTests({ a: FAILS_ONCE, b: FAILS });
    expect(verdict).toEqual({ passed: 0, failed: 1, flaky: ['a.spec.cjs'] });
    expect(status).toBe(1);
  });

  it('fails where Jest fails besides a flaky file', async () => {
    const files = { a: PASSES, b: FAILS_ONCE, teardown: `throw new Error('no teardown');` };
    const args = ['-i', '--globalTeardown=./teardown.spec.cjs', 'a.spec', 'b.spec'];
    const { status, output, verdict } = await runTests(files, { args });
    expect(verdict).toEqual({ passed: 1, failed: 1, flaky: ['b.spec.cjs'] });
    expect(output).toContain('Jest failed besides');
    expect(status).toBe(1);
  });

  it('runs a file once where it is alone', async () => {
    const { status, verdict } = await runTests(
      { a: PASSES, b: FAILS_ONCE },
      { args: ['b.spec', '-i'] },
    );
    expect(verdict).toEqual({ passed: 0, failed: 1, flaky: [] });
    expect(status).toBe(1);
  });

  it('fails where a file cannot be loaded', async () => {
    const { status, verdict } = await runTests({ a: PASSES, b: `require('./absent');` });
    expect(verdict).toEqual({ passed: 1, failed: 1, flaky: [] });
    expect(status).toBe(1);
  });

  it('fails where more than two files do, though each passes by itself', async () => {
    const { status, verdict } = await runTests({ a: FAILS_ONCE, b: FAILS_ONCE, c: FAILS_ONCE });
    expect(verdict).toEqual({ passed: 0, failed: 3, flaky: [] });
    expect(status).toBe(1);
  });

  it('fails where no test ran, and names the path that no file matches', async () => {
    const { status, output, verdict } = await runTests({ a: PASSES }, { args: ['absent.spec'] });
    expect(verdict).toEqual({ passed: 0, failed: 1, flaky: [] });
    expect(output).toMatch(/^No test file matches absent\.spec$/m);
    expect(output).not.toContain('Jest was ended');
    expect(status).toBe(1);
  });

  it('has a result where it is ended, with the file that hangs', async () => {
    const files = { a: PASSES, b: HANGS };
    const { status, verdict, output, left } = await runTests(files, {
      args: [],
      endAfter: /PASS push/,
    });
    expect(verdict).toEqual({ passed: 1, failed: 1, flaky: [] });
    expect(output).toContain('b.spec.cjs had not finished');
    expect(left).toEqual([]);
    expect(status).toBe(1);
  });

  it('ends by itself when its time is over', async () => {
    const { status, verdict, output } = await runTests(
      { a: HANGS },
      { env: { TEST_MINUTES: '0.05' } },
    );
    expect(verdict).toMatchObject({ passed: 0, failed: 1 });
    expect(output).toContain('Jest was ended before it had finished.');
    expect(status).toBe(1);
  });

  (process.platform === 'linux' ? it : it.skip)(
    'prints its cost in workers and their children, and the most expensive files',
    async () => {
      const { output } = await runTests({ a: PASSES, b: BURNS, c: CHILD_BURNS }, { args: [] });
      expect(output).toMatch(/^ +(?!0\.[01])\d\.\d \+ +0\.0 {2}b\.spec\.cjs$/m);
      expect(output).toMatch(/^ +0\.\d \+ +(?!0\.[01])\d\.\d {2}c\.spec\.cjs$/m);
      const [all = 0, inFiles = 0] = /^CPU: (\S+) s in all processes, (\S+) s/m
        .exec(output)!
        .slice(1)
        .map(Number);
      expect(inFiles).toBeGreaterThan(0.4);
      // Jest itself.
      expect(all - inFiles).toBeGreaterThan(0.2);
    },
  );
});

describe('npm run test:load', () => {
  it('does not count the busy loops among its own processes', async () => {
    const { status, output } = await runTests({ a: PASSES }, { suite: 'load' });
    expect(output).toContain('2 busy loops among them');
    expect(status).toBe(0);
  });
});
