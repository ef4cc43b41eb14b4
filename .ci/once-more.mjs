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
  const outputFile = join(scratch, `${name}.json`);
  const options = ['--ci', '--json', `--outputFile=${outputFile}`, ...more];
  const { status } = spawnSync(command, [...args, ...options], { stdio: ['ignore', 1, 2] });
  const report = existsSync(outputFile) ? JSON.parse(readFileSync(outputFile, 'utf8')) : undefined;
  return { status, report };
}

function firstFailureOf({ message, assertionResults }) {
  const failed = assertionResults.find(({ status }) => status === 'failed');
  return failed === undefined
    ? message
    : `${failed.fullName}\n${failed.failureMessages.join('\n')}`;
}

const { status, report } = run('first');
const failures = report?.testResults.filter((result) => result.status === 'failed') ?? [];
const flaky = [];
if (failures.length <= MAX_FLAKY) {
  for (const [index, failure] of failures.entries()) {
    const file = relative(process.cwd(), failure.name);
    console.log(`\n${file} failed; once more, by itself:`);
    const again = run(`again-${index}`, '--maxWorkers=1', '--runTestsByPath', failure.name);
    if (again.status === 0 && again.report?.numPassedTests > 0) {
      flaky.push({ file, firstFailure: firstFailureOf(failure) });
    }
  }
}
rmSync(scratch, { recursive: true });
for (const { file, firstFailure } of flaky) console.log(`\nFLAKY ${file}: ${firstFailure}`);

const failed = failures
  .filter(({ name }) => !flaky.some(({ file }) => file === relative(process.cwd(), name)))
  .reduce((sum, { assertionResults }) => {
    return sum + Math.max(1, assertionResults.filter((test) => test.status === 'failed').length);
  }, 0);
// A run that has no failed file and did not end well was ended, or found no tests.
const isClean = report !== undefined && failed === 0 && (status === 0 || flaky.length > 0);
const verdict = {
  passed: report?.numPassedTests ?? 0,
  failed: isClean ? 0 : Math.max(1, failed),
  flaky: flaky.map(({ file }) => file),
};
writeFileSync(reportFile, JSON.stringify(verdict));
process.exitCode = isClean ? 0 : 1;
