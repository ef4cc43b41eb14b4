import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { projectRoot } from '../support/project-root.js';

const CONFIG = JSON.stringify({ testMatch: ['**/*.spec.cjs'], transform: {}, maxWorkers: 1 });
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

/** Runs CI's way of testing over a project of these files. */
function runTests(files: Readonly<Record<string, string>>) {
  const project = mkdtempSync(join(tmpdir(), 'planted-project-'));
  try {
    for (const [name, text] of Object.entries(files)) {
      writeFileSync(join(project, `${name}.spec.cjs`), text);
    }
    const jest = join(projectRoot, 'node_modules/jest/bin/jest.js');
    const { status, stdout } = spawnSync(
      process.execPath,
      [
        join(projectRoot, '.ci/once-more.mjs'),
        join(project, 'verdict.json'),
        ...[process.execPath, jest, '--rootDir', project, '--config', CONFIG],
      ],
      { cwd: project, encoding: 'utf8', env: { ...process.env, NODE_OPTIONS: '' } },
    );
    const verdict: unknown = JSON.parse(readFileSync(join(project, 'verdict.json'), 'utf8'));
    return { status, stdout, verdict };
  } finally {
    rmSync(project, { recursive: true });
  }
}

describe('CI', () => {
  it('passes where every file does', () => {
    const { status, verdict } = runTests({ a: PASSES, b: PASSES });
    expect(verdict).toEqual({ passed: 2, failed: 0, flaky: [] });
    expect(status).toBe(0);
  });

  it('runs a failed file once more, and names it as flaky with its first failure', () => {
    const { status, stdout, verdict } = runTests({ a: PASSES, b: FAILS_ONCE });
    expect(verdict).toEqual({ passed: 1, failed: 0, flaky: ['b.spec.cjs'] });
    expect(stdout).toMatch(/FLAKY b\.spec\.cjs:\n[^]*fails once[^]*toBe/);
    expect(status).toBe(0);
  });

  it('knows a failure whose error has a circle in it', () => {
    const { status, verdict } = runTests({ a: PASSES, b: FAILS_ONCE_IN_A_CIRCLE });
    expect(verdict).toEqual({ passed: 1, failed: 0, flaky: ['b.spec.cjs'] });
    expect(status).toBe(0);
  });

  it('fails where a file fails again', () => {
    const { status, verdict } = runTests({ a: FAILS_ONCE, b: FAILS });
    expect(verdict).toEqual({ passed: 0, failed: 1, flaky: ['a.spec.cjs'] });
    expect(status).toBe(1);
  });

  it('fails where a file cannot be loaded', () => {
    const { status, verdict } = runTests({ a: PASSES, b: `require('./absent');` });
    expect(verdict).toEqual({ passed: 1, failed: 1, flaky: [] });
    expect(status).toBe(1);
  });

  it('fails where more than two files do, though each passes by itself', () => {
    const { status, verdict } = runTests({ a: FAILS_ONCE, b: FAILS_ONCE, c: FAILS_ONCE });
    expect(verdict).toEqual({ passed: 0, failed: 3, flaky: [] });
    expect(status).toBe(1);
  });

  it('fails where no test ran', () => {
    const { status, verdict } = runTests({});
    expect(verdict).toEqual({ passed: 0, failed: 1, flaky: [] });
    expect(status).toBe(1);
  });
});
