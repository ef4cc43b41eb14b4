/** `npm test`, `npm run test:all` and `npm run test:load`: see HELP. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { cpuOfMachine, cpuOfThisProcess } from './cpu.mjs';
import { NARROWING } from './parts.mjs';
import { partsToRun } from './parts-to-run.mjs';
import { printCosts } from './print-costs.mjs';
import { TESTS_FAILED, runJest } from './run-jest.mjs';

const HELP = `
npm test [-- PATH… and options of Jest]      every clause, script and kind of fault once
npm run test:load [-- the same]              the same beside two busy loops
npm run test:all [-- PART… or the same]      the parts of test/parts.json: more seeds, pairs, versions and injections; recipes; tools
npm run test:all -- --changed                only the parts whose digest differs from that in .ci/verified

A file that fails is run once more by itself. If that passes, it is flaky: it is named, and more than two fail the run.
What is not installed is installed with apt-get where that is possible. Otherwise its tests are left out, unless CI is set:
then the run fails. A run of test:all on a clean tree writes the digests of the parts that passed into .ci/verified.

TEST_MINUTES    ends the run after that time, with the result so far
TEST_VERDICT    a file for { passed, failed, flaky }
RANDOM_SEED     and RANDOM_PATH reproduce a random failure that was printed with them
Sizes and targets, with which .ci/verified is unchanged: ${NARROWING.join(' ')}
Programs: REDIS_SERVER_BIN POSTGRES_BIN RABBITMQ_SERVER_BIN NATS_SERVER_BIN MOSQUITTO_BIN PROMTOOL_BIN CHROMIUM_BIN
          SPIN_BIN CC
`.trim();

const MAX_FLAKY = 2;

/** It ends with its parent. */
const BUSY_LOOP = 'const parent = process.ppid; while (process.ppid === parent);';

const [suite, ...options] = process.argv.slice(2);
if (options.includes('--help')) {
  console.log(HELP);
} else {
  process.exitCode = await main();
}

async function main() {
  const parts = suite === 'all' ? partsToRun(options) : undefined;
  if (parts?.problem) {
    console.error(parts.problem);
    return writeVerdict({ passed: 0, failed: 1, flaky: [] });
  }
  if (parts !== undefined && parts.args === undefined) {
    console.log('No part has to be run.');
    return writeVerdict({ passed: 0, failed: 0, flaky: [] });
  }
  const scratch = mkdtempSync(join(tmpdir(), 'test-run-'));
  const busy = suite === 'load' ? [spawnBusyLoop(), spawnBusyLoop()] : [];
  const before = { load: loadavg()[0], startedAt: performance.now(), machine: cpuOfMachine() };
  try {
    const { verdict, costs, files, leftOut } = await runTests(scratch, parts?.args ?? options);
    if (verdict === undefined) return 0;
    if (leftOut.length === 0) parts?.verify(files);
    // Before the busy loops have ended: they are not a cost of the tests.
    const { own, children } = cpuOfThisProcess() ?? {};
    const seconds = (performance.now() - before.startedAt) / 1000;
    const others = cpuOfMachine() - before.machine - own - children;
    const cpu = own === undefined ? undefined : { own: own + children, others };
    printCosts({ verdict, costs, seconds, cpu, load: before.load, busy: busy.length });
    return writeVerdict(verdict);
  } finally {
    for (const loop of busy) loop.kill();
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** @returns the exit code. */
function writeVerdict(verdict) {
  const { TEST_VERDICT } = process.env;
  if (TEST_VERDICT) writeFileSync(TEST_VERDICT, JSON.stringify(verdict));
  return verdict.failed === 0 ? 0 : 1;
}

function spawnBusyLoop() {
  return spawn(process.execPath, ['-e', BUSY_LOOP], { stdio: 'ignore' });
}

/** All results, and those of the second runs. */
async function runTests(scratch, options) {
  const { TEST_MINUTES, CI } = process.env;
  const deadline = TEST_MINUTES ? Date.now() + Number(TEST_MINUTES) * 60_000 : Infinity;
  // Last: the values after that option are taken for projects, too.
  const project = ['--selectProjects', suite === 'all' ? 'all' : 'push'];
  const workers = options.some((option) => /^(--maxWorkers|-w|-i$|--runInBand)/.test(option))
    ? []
    : ['--maxWorkers', '2'];
  const jest = (name, args) => runJest({ scratch, name, deadline, args: [...args, ...project] });

  const first = await jest('first', [...workers, ...options]);
  // Another mode was requested, as by --listTests.
  if (first.status === 0 && !first.isComplete && first.files.length === 0) return {};
  const failures = first.files.filter(({ failed }) => failed > 0);
  const flaky = [];
  const costs = [...first.costs];
  // A file that ran alone has already run by itself. A signal that has ended Jest ends the run.
  const mayRepeat = first.isComplete && first.status !== null;
  if (mayRepeat && failures.length <= MAX_FLAKY && first.files.length > 1) {
    for (const [index, { file, message }] of failures.entries()) {
      const name = nameOf(file);
      console.log(`\n${name} failed; once more, by itself:`);
      const alone = ['--maxWorkers', '1', '--runTestsByPath', file, ...namePatternIn(options)];
      const again = await jest(`again-${index}`, alone);
      costs.push(...again.costs);
      if (again.status === null) break;
      if (again.status === 0 && again.files.some(({ passed }) => passed > 0)) {
        flaky.push({ file, name, message });
      }
    }
  }
  for (const { name, message } of flaky) console.log(`\nFLAKY ${name}:\n${message}`);

  for (const { file } of first.files.filter(({ hasEnded }) => !hasEnded)) {
    console.log(`\n${nameOf(file)} had not finished when Jest was ended.`);
  }
  const failed = failures
    .filter(({ file }) => !flaky.some((one) => one.file === file))
    .reduce((sum, failure) => sum + failure.failed, 0);
  const isLeftOut = Boolean(CI) && first.leftOut.length > 0;
  if (isLeftOut) console.log(`\nIn CI no tests may be left out: ${first.leftOut.join(', ')}.`);
  if (first.isEmpty) console.log(`\nNo test file matches ${options.join(' ')}`);
  else if (!first.isComplete) console.log('\nJest was ended before it had finished.');
  // A failed file, perhaps by chance, must not hide another failure of Jest.
  const expectedStatus = failures.length > 0 ? TESTS_FAILED : 0;
  const isEnded = first.isComplete && first.status === expectedStatus;
  if (first.isComplete && !isEnded)
    console.log(`\nJest failed besides: ${first.status}, see above.`);
  const isClean = failed === 0 && first.files.length > 0 && isEnded && !isLeftOut;
  const verdict = {
    passed: first.files.reduce((sum, { passed }) => sum + passed, 0),
    failed: isClean ? 0 : Math.max(1, failed),
    flaky: flaky.map(({ name }) => name),
  };
  return { verdict, costs, files: first.files, leftOut: first.leftOut };
}

/** A test that fails where others of its file do not run must run like that again. */
function namePatternIn(options) {
  const at = options.findIndex((option) => /^(-t|--testNamePattern)(=|$)/.test(option));
  if (at < 0) return [];
  return options.slice(at, options[at].includes('=') ? at + 1 : at + 2);
}

function nameOf(file) {
  return relative(process.cwd(), file);
}
