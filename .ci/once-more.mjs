// node once-more.mjs REPORT COMMAND…: runs Jest by COMMAND, and a file that failed once more, alone. One that is clean then
// is flaky: it is named with its first failure, and fails the run only with two others. REPORT gets { passed, failed, flaky }.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';

const MAX_FLAKY = 2;
const [reportFile, command, ...args] = process.argv.slice(2);
const scratch = mkdtempSync(join(tmpdir(), 'once-more-'));

function run(name, ...more) {
  const TEST_REPORT = join(scratch, `${name}.json`);
  const reporters = [
    '--reporters=default',
    `--reporters=${join(import.meta.dirname, 'report.mjs')}`,
  ];
  const { status } = spawnSync(command, [...args, '--ci', ...reporters, ...more], {
    stdio: ['ignore', 1, 2],
    env: { ...process.env, TEST_REPORT },
  });
  const report = existsSync(TEST_REPORT)
    ? JSON.parse(readFileSync(TEST_REPORT, 'utf8'))
    : { passed: 0, files: 0, failures: [] };
  return { status, ...report };
}

const first = run('first');
const flaky = [];
if (first.failures.length <= MAX_FLAKY) {
  for (const [index, { file, message }] of first.failures.entries()) {
    const name = relative(process.cwd(), file);
    console.log(`\n${name} failed; once more, by itself:`);
    const again = run(`again-${index}`, '--maxWorkers=1', '--runTestsByPath', file);
    if (again.status === 0 && again.passed > 0) flaky.push({ file, name, message });
  }
}
rmSync(scratch, { recursive: true });
for (const { name, message } of flaky) console.log(`\nFLAKY ${name}:\n${message}`);

const failed = first.failures
  .filter(({ file }) => !flaky.some((one) => one.file === file))
  .reduce((sum, failure) => sum + failure.failed, 0);
// A run that has no failed file and did not end well was ended, or found no tests.
const isClean = first.files > 0 && failed === 0 && (first.status === 0 || flaky.length > 0);
const verdict = {
  passed: first.passed,
  failed: isClean ? 0 : Math.max(1, failed),
  flaky: flaky.map(({ name }) => name),
};
writeFileSync(reportFile, JSON.stringify(verdict));
process.exitCode = isClean ? 0 : 1;
