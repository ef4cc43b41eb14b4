import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { projectRoot } from '../../support/project-root.js';
import { NARROWING, complaintsAbout, readParts } from '../../run/parts.mjs';
import { PlantedProject, type RunOptions } from './planted-project.js';

jest.setTimeout(120_000);

const FILES = {
  '.gitignore': 'node_modules/\n',
  'jest.config.cjs': `module.exports = { projects: [
    { displayName: 'all', testMatch: ['<rootDir>/test/**/*.test.ts'], transform: {} }] };`,
  'lib/index.ts': '',
  'test/parts.json': JSON.stringify({
    one: { tests: ['test/one/**/*.all.test.ts'] },
    two: { tests: ['test/{two,absent}.test.ts', 'test/*.all.test.ts'] },
  }),
  'test/one/a.all.test.ts': `const worker = './worker.mjs'; it('passes', () => undefined);`,
  'test/one/worker.mjs': `import '../elsewhere/relay.mjs';`,
  'test/elsewhere/relay.mjs': '',
  'test/elsewhere/frames/frame.json': '{}',
  'test/three.all.test.ts': `it('passes', () => undefined);`,
  'test/two.test.ts': `const isTestAll = './support/jest/test-all.ts'; it('passes', () => undefined);`,
  'test/support/jest/test-all.ts': '',
  'docs/readme.md': '',
};

let project: PlantedProject;
beforeEach(() => {
  project = new PlantedProject(FILES);
  git('init', '--quiet');
  commit();
});
afterEach(() => project.remove());

function git(...args: string[]): string {
  const as = ['-c', 'user.name=tester', '-c', 'user.email=tester@localhost'];
  return execFileSync('git', [...as, ...args], { cwd: project.folder, encoding: 'utf8' });
}

function commit(files: Readonly<Record<string, string>> = {}): void {
  project.write(files);
  git('add', '--all');
  git('commit', '--quiet', '--allow-empty', '--message', 'change');
}

const testAll = (options: RunOptions = {}) =>
  project.run({ suite: 'all', ...options, args: ['-i', ...(options.args ?? [])] });

/** What CI does. */
const inCi = () => testAll({ args: ['--changed'], env: { CI: 'true' } });

function verified(): object | undefined {
  const file = join(project.folder, '.ci/verified');
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as object) : undefined;
}

const FAILS = `it('fails', () => { throw new Error('as planted'); });`;

describe('npm run test:all', () => {
  it('writes what has passed, and CI runs what has changed since', async () => {
    const all = await testAll();
    expect(all.verdict).toEqual({ passed: 3, failed: 0, flaky: [] });
    expect(verified()).toEqual({ one: expect.any(String), two: expect.any(String) });
    commit({ 'docs/readme.md': 'no part depends on it' });
    const same = await inCi();
    expect(same.output).toMatch(/^one: same\ntwo: same\nNo part has to be run\.$/m);
    expect(same.verdict).toEqual({ passed: 0, failed: 0, flaky: [] });

    const before = verified();
    commit({ 'test/elsewhere/frames/frame.json': '{ "changed": true }' });
    const one = await inCi();
    expect(one.output).toMatch(/^one: differs\ntwo: same$/m);
    expect(one.verdict).toEqual({ passed: 1, failed: 0, flaky: [] });
    expect(verified()).toEqual(before);

    await testAll({ args: ['--changed'] });
    expect(verified()).not.toEqual(before);
    commit({ 'lib/index.ts': '// changed' });
    expect((await inCi()).output).toMatch(/^one: differs\ntwo: differs$/m);
  });

  it('runs in CI what was never run, and everything without git', async () => {
    await testAll({ args: ['two'] });
    expect(verified()).toEqual({ two: expect.any(String) });
    commit();
    const clone = new PlantedProject({});
    try {
      git('clone', '--quiet', '--depth', '1', `file://${project.folder}`, join(clone.folder, 'a'));
      const options = { suite: 'all', args: ['-i', '--changed'], env: { CI: 'true' } } as const;
      const absent = await clone.run({ ...options, folder: 'a' });
      expect(absent.output).toMatch(/^one: absent\ntwo: same$/m);
      expect(absent.verdict.passed).toBe(1);
      rmSync(join(clone.folder, 'a/.git'), { recursive: true });
      const bare = await clone.run({ ...options, folder: 'a' });
      expect(bare.output).toMatch(/^one: absent\ntwo: differs$/m);
      expect(bare.verdict.passed).toBe(3);
    } finally {
      clone.remove();
    }
  });

  it('withdraws a part that fails though nothing in it has changed', async () => {
    commit({
      'test/one/a.all.test.ts': `it('passes', () => expect(process.env).not.toHaveProperty('BREAK'));`,
    });
    await project.run({ suite: 'all', args: ['one', '-w', '1'] });
    expect(verified()).toEqual({ one: expect.any(String) });
    await testAll({ env: { BREAK: 'true' } });
    expect(verified()).toEqual({ two: expect.any(String) });
  });

  it.each(['{ "one":', 'null'])('treats nothing as verified by %s', async (text) => {
    commit({ '.ci/verified': text });
    const { output, verdict } = await inCi();
    expect(output).toMatch(
      /^\.ci\/verified has no digests: nothing is verified\.\none: absent\ntwo: absent$/m,
    );
    expect(verdict).toEqual({ passed: 3, failed: 0, flaky: [] });
  });

  it('does not write a part that has failed', async () => {
    commit({ 'test/one/a.all.test.ts': FAILS });
    const { verdict, status } = await testAll();
    expect(verdict).toEqual({ passed: 2, failed: 1, flaky: [] });
    expect(status).toBe(1);
    expect(verified()).toEqual({ two: expect.any(String) });
  });

  it('writes nothing where files differ from the commit, nor where a part has run partly', async () => {
    await testAll({ args: ['-t', 'passes'] });
    expect(verified()).toBeUndefined();
    project.write({ 'test/one/new.mjs': '' });
    const { output } = await testAll();
    expect(output).toContain('.ci/verified is unchanged');
    expect(verified()).toBeUndefined();
  });

  it('writes nothing where a variable changes what runs', async () => {
    const { output, verdict } = await testAll({ env: { RANDOM_RUNS: '1' } });
    expect(verdict).toEqual({ passed: 3, failed: 0, flaky: [] });
    expect(output).toContain('.ci/verified is unchanged: RANDOM_RUNS changed what was run.');
    expect(verified()).toBeUndefined();
  });

  it('fails where a file is in no part or in two, or does what npm test does', async () => {
    commit({
      'test/parts.json': JSON.stringify({
        one: { tests: ['test/one/a.all.test.ts', 'test/gone.test.ts', 'test/same.test.ts'] },
        two: { tests: ['test/**/a.all.test.ts', 'test/two.test.ts'] },
      }),
      'test/same.test.ts': `it('passes', () => undefined);`,
    });
    const { output, verdict, status } = await testAll();
    expect(output.trim().split('\n').sort()).toEqual([
      'one: no file is named test/gone.test.ts',
      'test/one/a.all.test.ts is in several parts: one, two',
      'test/same.test.ts does the same in npm test: it does not use isTestAll',
      'test/three.all.test.ts is in no part of test/parts.json',
    ]);
    expect(verdict.failed).toBe(1);
    expect(status).toBe(1);
  });
});

it('The parts of this project are complete, and repeat nothing', () => {
  expect(complaintsAbout(readParts(projectRoot), projectRoot)).toEqual([]);
});

/** Variables that choose a program, that Node, npm, Jest and CI set, or that a test sets for others. */
const NEUTRAL =
  /_BIN$|^(?:CC|CI|JEST_WORKER_ID|NODE_ENV|NODE_OPTIONS|PATH|SHARED_SERVERS_URL|DATABASE_URL|REDIS_URL|VALKEY_URL|CART_SECRET|PICTURES|MSGPACKR_NATIVE_ACCELERATION_DISABLED)$/;

it('The variables that change what runs are those that tests read', () => {
  const names = readdirSync(join(projectRoot, 'test'), { recursive: true, encoding: 'utf8' });
  const read = names
    .filter((name) => /\.test\.ts$|^(?:contract\/harness|support)\/.*\.ts$/.test(name))
    .map((name) => readFileSync(join(projectRoot, 'test', name), 'utf8'))
    .flatMap((code) => [
      ...[...code.matchAll(/\bprocess\.env\.([A-Z_]+)\b(?! = )/g)].map(([, name]) => name!),
      ...[...code.matchAll(/\{([^{}]*)\} = process\.env;/g)].flatMap(
        ([, list]) => list!.match(/\b[A-Z_]{2,}\b/g) ?? [],
      ),
    ]);
  expect([...new Set(read)].filter((name) => !NEUTRAL.test(name)).sort()).toEqual(NARROWING);
});
