/** `npm test`, `npm run test:all` and `npm run test:load`: see HELP. Jest loads this file, too, as a reporter. */
import { spawn, spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { subjects } from '../jest.config.js';

const HELP = `
npm test [-- PATH… and options of Jest]        every clause, script and kind of fault once
npm run test:load [-- the same]                the same beside two busy loops
npm run test:all [-- PROJECT… and the same]    more seeds, pairs, versions and injections; recipes; tools

A file that fails is run once more by itself. If that passes, it is flaky: it is named, and more than two fail the run.
What is not installed is installed with apt-get where that is possible. Otherwise its tests are left out, unless CI is set:
then the run fails.

Projects: ${Object.keys(subjects).join(', ')}
RANDOM_SEED and RANDOM_PATH reproduce a random failure that was printed with them.
Programs: REDIS_SERVER_BIN POSTGRES_BIN MARIADB_BIN RABBITMQ_SERVER_BIN NATS_SERVER_BIN MOSQUITTO_BIN PGBOUNCER_BIN NGINX_BIN
          PROMTOOL_BIN CHROMIUM_BIN SPIN_BIN CC
`.trim();

/** Which files need a program. One that is missing here is missed only where it is not installed. */
const NEEDED_BY = {
  redis: /^(?!test\/(?:unit|project)\/)/,
  postgres: /^(?!test\/(?:unit|project)\/)/,
  mariadb:
    /^test\/(?:conformance|contract|faults\/processes|integration\/(?:mysql|differential))\//,
  'c-compiler': /^lab\/|^test\/(?:faults|e2e\/(?:bullmq|fencing|reconciler))\b/,
  chromium: /^test\/(?:site\/|e2e\/(?:browser|sample-app\/page)\.)/,
  rabbitmq:
    /^lab\/walk\/|\/(?:messages|soak|sample-app|orders-on-rabbitmq)\/|(?:golevelup|decorators\/wrappers|shared-servers)\b/,
  nats: /\/brokers|shared-servers/,
  mosquitto: /\/brokers|shared-servers/,
  pgbouncer: /pgbouncer/,
  nginx: /nginx/,
  promtool: /\/alerts\//,
  spin: /^lab\/model\//,
};

const MAX_FLAKY = 2;
/** On two cores: tests wait for servers and deadlines a fifth of the time. */
const WORKERS = '3';
const ROOT = process.cwd();
const JEST = createRequire(import.meta.url).resolve('jest/bin/jest');
const NODE_OPTIONS = '--experimental-vm-modules --disable-warning=ExperimentalWarning';
/** Of Jest's workers: to import all files took 77 CPU seconds instead of 92. */
const YOUNG_SPACE = '--max-semi-space-size=64';
/** The exit code where tests have failed, and Jest has ended normally. */
const TESTS_FAILED = 100;
/** Of `npm run provision`. */
const LEFT_OUT = 3;
const BUSY_LOOP = 'const parent = process.ppid; while (process.ppid === parent);';

/** Notes each file's result as it comes: Jest's `--json` writes none where it is ended, or an error is circular. */
export default class Reporter {
  onTestFileStart({ path }) {
    note({ path, passed: 0, failed: 1, message: 'It had not ended when Jest did.' });
  }

  onTestFileResult({ path }, { numPassingTests, numFailingTests, testExecError, failureMessage }) {
    const failed = testExecError ? Math.max(1, numFailingTests) : numFailingTests;
    note({ path, passed: numPassingTests, failed, message: failureMessage ?? '' });
  }
}

function note(result) {
  appendFileSync(process.env.TEST_REPORT, `${JSON.stringify(result)}\n`);
}

if (process.argv[1] === import.meta.filename) {
  const [suite, ...args] = process.argv.slice(2);
  if (args.includes('--help')) console.log(HELP);
  else process.exitCode = await main(suite, args);
}

async function main(suite, args) {
  const named = args.filter((arg) => suite === 'all' && arg in subjects);
  const projects = suite !== 'all' ? ['push'] : named.length > 0 ? named : Object.keys(subjects);
  const options = args.filter((arg) => !named.includes(arg));
  const project = ['--selectProjects', ...projects];
  if (options.includes('--listTests')) return jest([...options, ...project]).ended;

  const files = await listed([...options, ...project]);
  if (files.length === 0) {
    console.error(`No test file matches ${args.join(' ')}`);
    return 1;
  }
  if (!isProvided(files)) return 1;
  const startedAt = performance.now();
  const scratch = mkdtempSync(join(tmpdir(), 'test-run-'));
  const loops =
    suite === 'load' ? [1, 2].map(() => spawn(process.execPath, ['-e', BUSY_LOOP])) : [];
  try {
    const { status, results, flaky } = await run(scratch, options, project);
    const failures = results.filter(({ failed }) => failed > 0);
    const passed = results.reduce((sum, result) => sum + result.passed, 0);
    // Jest fails besides where, for example, an open handle keeps it, or its configuration is wrong.
    const failed =
      failures.reduce((sum, result) => sum + result.failed, 0) ||
      Number(status !== (flaky.length > 0 ? TESTS_FAILED : 0));
    const seconds = (performance.now() - startedAt) / 1000;
    for (const { path } of failures) console.log(`failed: ${relative(ROOT, path)}`);
    console.log(`flaky: ${flaky.map(({ path }) => relative(ROOT, path)).join(', ') || 'none'}`);
    console.log(`time: ${seconds.toFixed(1)} s${cpuUsed()}`);
    console.log(`tests: ${passed} passed, ${failed} failed`);
    return Math.min(failed, 1);
  } finally {
    for (const loop of loops) loop.kill();
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** @returns the results, those of a second run in place of a flaky first one. */
async function run(scratch, options, project) {
  const workers = options.some((option) => /^(--maxWorkers|-w|-i$|--runInBand)/.test(option))
    ? []
    : ['--maxWorkers', WORKERS];
  const first = await reported(join(scratch, 'first'), [...workers, ...options, ...project]);
  const failures = first.results.filter(({ failed }) => failed > 0);
  const flaky = [];
  // A signal that has ended Jest ends the run. A file that ran alone has already run by itself.
  if (first.status === TESTS_FAILED && failures.length <= MAX_FLAKY && first.results.length > 1) {
    for (const [index, failure] of failures.entries()) {
      console.log(`\n${relative(ROOT, failure.path)} failed; once more, by itself:`);
      const alone = ['--maxWorkers', '1', '--runTestsByPath', failure.path, ...nameIn(options)];
      const again = await reported(join(scratch, `again-${index}`), [...alone, ...project]);
      if (again.status !== 0 || again.results.length === 0) continue;
      console.log(`\nFLAKY ${relative(ROOT, failure.path)}:\n${failure.message}`);
      flaky.push(failure);
    }
  }
  const results = first.results.map((result) =>
    flaky.includes(result) ? { ...result, failed: 0 } : result,
  );
  return { status: first.status, results, flaky };
}

/** Runs Jest. A file is reported when it begins and when it ends: the last line counts. */
async function reported(TEST_REPORT, args) {
  // Ours first: what is printed is noted.
  const reporters = [import.meta.filename, 'default'].map((name) => `--reporters=${name}`);
  const ours = [...reporters, `--testFailureExitCode=${TESTS_FAILED}`];
  const status = await jest([...args, ...ours], { TEST_REPORT }).ended;
  const lines = existsSync(TEST_REPORT) ? readFileSync(TEST_REPORT, 'utf8').split('\n') : [];
  const results = lines.filter(Boolean).map((line) => JSON.parse(line));
  return { status, results: [...new Map(results.map((result) => [result.path, result])).values()] };
}

function jest(args, variables = {}, stdio = 'inherit') {
  const child = spawn(process.execPath, [YOUNG_SPACE, JEST, ...args], {
    cwd: ROOT,
    stdio,
    // A group of its own: a worker in an endless loop does not notice that Jest is gone.
    detached: true,
    env: {
      ...process.env,
      NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} ${NODE_OPTIONS}`.trim(),
      ...variables,
    },
  });
  const end = () => process.kill(-child.pid, 'SIGKILL');
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  for (const signal of signals) process.on(signal, end);
  const ended = new Promise((resolve) => {
    child.once('close', (status) => {
      for (const signal of signals) process.off(signal, end);
      resolve(status);
    });
  });
  return { child, ended };
}

async function listed(args) {
  const { child, ended } = jest([...args, '--listTests'], {}, ['ignore', 'pipe', 'inherit']);
  let text = '';
  child.stdout.on('data', (data) => (text += data));
  await ended;
  return text.split('\n').filter((line) => line.endsWith('.test.ts'));
}

/** A test that fails where others of its file do not run must run like that again. */
function nameIn(options) {
  const at = options.findIndex((option) => /^(-t|--testNamePattern)(=|$)/.test(option));
  return at < 0 ? [] : options.slice(at, options[at].includes('=') ? at + 1 : at + 2);
}

function isProvided(files) {
  const paths = files.map((file) => relative(ROOT, file));
  const needed = Object.entries(NEEDED_BY).filter(([, by]) => paths.some((path) => by.test(path)));
  if (needed.length === 0) return true;
  const names = needed.map(([name]) => name);
  const { status } = spawnSync('npm', ['run', '--silent', 'provision', '--', ...names], {
    cwd: ROOT,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (status === LEFT_OUT && process.env.CI) {
    console.error('In CI no tests may be left out.');
    return false;
  }
  return status === 0 || status === LEFT_OUT;
}

/** CPU seconds of this process and of all that it has waited for, from Linux's /proc; nothing elsewhere. */
function cpuUsed() {
  if (process.platform !== 'linux') return '';
  const fields = readFileSync('/proc/self/stat', 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return `, CPU: ${(ticks / 100).toFixed(1)} s`;
}
