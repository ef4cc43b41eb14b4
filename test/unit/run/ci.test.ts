import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { projectRoot } from '../../support/project-root.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'planted-ci-'));
  mkdirSync(join(folder, 'bin'));
  cpSync(join(projectRoot, '.ci/run'), join(folder, '.ci/run'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Runs CI with an npm that only executes these lines of a script. */
function runCi(npm: string) {
  const script = (text: string) => `#!/bin/sh\n${text}\nexit 0\n`;
  writeFileSync(join(folder, 'bin/npm'), script(npm), { mode: 0o755 });
  writeFileSync(join(folder, 'bin/npx'), script(''), { mode: 0o755 });
  const PATH = [join(folder, 'bin'), process.env.PATH].join(delimiter);
  const env = { ...process.env, PATH };
  const { status, stdout } = spawnSync(join(folder, '.ci/run'), { env, encoding: 'utf8' });
  return { status, lastLine: stdout.trimEnd().split('\n').at(-1), stdout };
}

const verdict = (passed: number, failed: number, ...flaky: string[]) =>
  `echo '${JSON.stringify({ passed, failed, flaky })}' > "$TEST_VERDICT"`;

describe('CI', () => {
  it('sums up both runs, and names what was flaky', () => {
    const { status, lastLine, stdout } = runCi(`case "$*" in
test*) ${verdict(5, 0, 'a.test.ts')} ;;
*test:all*--changed*) ${verdict(2, 0)} ;;
esac`);
    expect(lastLine).toBe('7 passed, 0 failed');
    expect(stdout).toMatch(/^flaky: a\.test\.ts$/m);
    expect(status).toBe(0);
  });

  it('counts failed tests and failed steps', () => {
    const { status, lastLine } = runCi(`case "$*" in
test*) ${verdict(5, 3)}; exit 1 ;;
*test:all*) ${verdict(2, 1)}; exit 1 ;;
*lint*) exit 1 ;;
esac`);
    expect(lastLine).toBe('7 passed, 5 failed');
    expect(status).toBe(1);
  });

  it.each(['exit 1', 'exit 0'])('fails where the runs have no verdict, and %s', (end) => {
    const { status, lastLine } = runCi(`case "$*" in *test*) ${end} ;; esac`);
    expect(lastLine).toBe('0 passed, 2 failed');
    expect(status).toBe(1);
  });

  it('gives both runs a limit, so that there is a verdict within 80 minutes', () => {
    const { stdout } = runCi(`case "$*" in *test*) echo "$CI limit $TEST_MINUTES" ;; esac`);
    const limits = [...stdout.matchAll(/^true limit (\d+)$/gm)].map(([, minutes]) =>
      Number(minutes),
    );
    expect(limits).toEqual([30, 78]);
  });
});
