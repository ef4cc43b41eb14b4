import { spawn, spawnSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import ts from 'typescript';
import { CHECKS } from '../../../lab/model/checks.js';
import { MISTAKES as SIMULATED } from '../../../lab/simulate/mistakes/index.js';
import { recorded } from '../../../lab/simulate/mistakes/recorded.js';
import { documentationPages } from '../../support/docs/documented-blocks.js';
import { promisesIn } from '../../support/docs/promises.js';
import { checkRandomly, listsFromSeed } from '../../support/jest/random-runs.js';
import { projectRoot } from '../../support/project-root.js';
import { packageEntries } from '../../support/typescript/package-entries.mjs';

describe('run', () => {
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
      const { status, lines } = await runTests(
        Object.fromEntries(named) as Record<string, string>,
        {
          args: ['-i', ...args],
        },
      );
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
});

it('test/tsconfig.json leads each entry of the package to its source', () => {
  const file = join(projectRoot, 'test/tsconfig.json');
  const { config } = ts.readConfigFile(file, (path) => ts.sys.readFile(path));
  const sources = [...packageEntries(projectRoot)].map(([name, { source }]) => [
    name,
    [`../${source}`],
  ]);
  expect(config.compilerOptions.paths).toEqual(Object.fromEntries(sources));
});

it('each text that the simulation replaces stands in its file once', () => {
  const unplantable = SIMULATED.filter(({ file, change: [original] }) => {
    const text = readFileSync(join(projectRoot, file), 'utf8');
    return text.split(original).length !== 2;
  });
  expect(unplantable).toEqual([]);
});

it('the simulation has found each mistake, except those that are harmless', () => {
  const found = new Set(recorded().map(({ mistake }) => mistake));
  const missed = SIMULATED.filter(({ mistake, harmless }) => !harmless && !found.has(mistake));
  expect(missed.map(({ mistake }) => mistake)).toEqual([]);
});

it('each mistake that the simulation has found is still planted', () => {
  const planted = SIMULATED.map(({ mistake }) => mistake);
  expect(recorded().filter(({ mistake }) => !planted.includes(mistake))).toEqual([]);
});

describe('random runs', () => {
  // 1, 2 … 100 in an order that the seed determines.
  const values = listsFromSeed((seed) =>
    Array.from({ length: 100 }, (_, index) => ((index * 37 + seed) % 101) + 1),
  );
  /** Every list in which 40 comes before 10 is wrong. */
  const check = async (lists: readonly (readonly number[])[]) =>
    lists.map((list) =>
      list.includes(40) && list.lastIndexOf(10) > list.indexOf(40) ? `[${list.join()}]` : undefined,
    );

  afterEach(() => {
    delete process.env.RANDOM_SEED;
    delete process.env.RANDOM_PATH;
  });

  async function failure(): Promise<string> {
    const checked = checkRandomly({ values, runs: 200, atOnce: 20, check });
    return checked.then(
      () => 'none',
      (error: unknown) => (error as Error).message,
    );
  }

  it('a random failure is shrunk, and recurs with the printed seed and path', async () => {
    const found = await failure();
    const [, seed, path, list] = /RANDOM_SEED=(\d+) RANDOM_PATH=(\S+)\n(.*)$/.exec(found) ?? [];
    expect(list).toBe('[40,10]');
    process.env.RANDOM_SEED = seed;
    process.env.RANDOM_PATH = path;
    expect(await failure()).toContain('[40,10]');
  });

  it('as many random values are checked as requested', async () => {
    let checked = 0;
    const count = async (lists: readonly unknown[]) => lists.map(() => void (checked += 1));
    expect(await checkRandomly({ values, runs: 60, atOnce: 20, check: count })).toBe(60);
    expect(checked).toBe(60);
  });
});

const EVIDENCE = 'docs/explanation/evidence.md';
const read = (path: string) => readFileSync(join(projectRoot, path), 'utf8');

/** Each tag in the titles of tests, once for each title. */
function tagsInTitles(): string[] {
  return ['test', 'lab/chaos']
    .flatMap((folder) =>
      readdirSync(join(projectRoot, folder), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.ts'))
        .map((name) => join(folder, name)),
    )
    .flatMap((path) => [...read(path).matchAll(/ \[(P\d\d(?:, P\d\d)*)\]['"`],/g)])
    .flatMap(([, tags]) => tags!.split(', '));
}

/** What is wrong with a page of evidence. */
function complaintsAbout(page: string, tags: ReadonlySet<string>): string[] {
  const rows = [...page.matchAll(/^\| (P\d\d) +\| (.*?) +\| (.*?) *\|$/gm)];
  const named = rows.map(([, tag]) => tag!);
  const clauses = new Set(
    readdirSync(join(projectRoot, 'test/contract/clauses'))
      .flatMap((name) => [...read(`test/contract/clauses/${name}`).matchAll(/\bC\d\d[a-z]?\b/g)])
      .map(([clause]) => clause),
  );
  const held = rows.flatMap(([, tag, , beside]) => {
    const own = beside!.match(/\bC\d\d[a-z]?\b/g) ?? [];
    const missing = own.filter((clause) => !clauses.has(clause));
    const runs = [...beside!.matchAll(/(?:model|counterexample): (.*?)(?=; [a-z]+: |; \[|$)/g)];
    const unknown = runs
      .map(([, name]) => name!)
      .filter((name) => !CHECKS.some((check) => check.name === name));
    return [
      ...(tags.has(tag!) || own.length > 0 ? [] : [`${tag}: no test has it`]),
      ...[...missing, ...unknown].map((name) => `${tag}: there is no ${name}`),
    ];
  });
  const promised = documentationPages()
    .filter((path) => path !== EVIDENCE)
    .flatMap((path) => promisesIn({ path, text: read(path) }))
    .filter(({ text }) => !plain(page).includes(plain(text)))
    .map(({ text }) => `no tag: ${text}`);
  return [
    ...held,
    ...[...tags].filter((tag) => !named.includes(tag)).map((tag) => `${tag}: no promise has it`),
    ...named.filter((tag, index) => named.indexOf(tag) < index).map((tag) => `${tag}: twice`),
    ...promised,
  ];
}

function plain(text: string): string {
  return text.replaceAll('\\|', '|');
}

describe(EVIDENCE, () => {
  const page = read(EVIDENCE);
  const tags = new Set(tagsInTitles());

  it('has a tag for each promise, and tests with each tag', () => {
    expect(complaintsAbout(page, tags)).toEqual([]);
  });

  it.each([
    ['a promise without a test', page, (tag: string) => tag !== 'P07', 'P07: no test has it'],
    ['a tag without a promise', page.replace('| P07 ', '| PXX '), () => true, 'P07: no promise'],
    ['a clause that is gone', page.replaceAll('C49', 'C99'), () => true, 'there is no C99'],
    ['a run that is gone', page.replace('model: calm', 'model: calmer'), () => true, 'no calmer'],
    [
      'a promise without a tag',
      page.replace('| a pipe or a guard', '| a pipe'),
      () => true,
      'no tag: ',
    ],
  ])('is not accepted with %s', (_, text, isThere, complaint) => {
    const complaints = complaintsAbout(text, new Set([...tags].filter(isThere)));
    expect(complaints.join('\n')).toContain(complaint);
  });
});
