/**
 * Checks the protocol of a record against its model, state by state: README.md beside this file.
 *
 * Arguments: parts of the names of checks; all of them without.
 */
import { CHECKS } from './checks.js';
import { runCheck } from './run-check.js';

const parts = process.argv.slice(2);
const checks = CHECKS.filter(({ name }) => parts.every((part) => name.includes(part)));
if (checks.length === 0) {
  console.error(`No check has a name with: ${parts.join(' ')}`);
  process.exitCode = 2;
}

let wrong = 0;
for (const check of checks) {
  const { isAsExpected, found, states, megabytes, seconds } = runCheck(check);
  if (!isAsExpected) wrong += 1;
  console.log(
    [
      isAsExpected ? 'ok   ' : 'WRONG',
      check.name.padEnd(34),
      found.padEnd(16),
      `${states.toLocaleString('en')} states`.padStart(19),
      `${megabytes.toLocaleString('en')} MB`.padStart(9),
      `${seconds.toFixed(1)} s`.padStart(8),
      ` ${check.definitions.join(' ')}`,
    ].join(' '),
  );
}
if (wrong > 0) {
  console.error(`${wrong} of ${checks.length} checks did not come out as expected.`);
  process.exitCode = 1;
}
