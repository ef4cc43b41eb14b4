/**
 * Checks the protocol of a record against its model, state by state: README.md beside this file.
 *
 * Arguments: parts of the names of checks; all of them without.
 */
import { CHECKS } from './checks.js';
import { lineOf, Model } from './model.js';

const parts = process.argv.slice(2);
const checks = CHECKS.filter(({ name }) => parts.every((part) => name.includes(part)));
if (checks.length === 0) {
  console.error(`No check has a name with: ${parts.join(' ')}`);
  process.exitCode = 2;
}

const model = new Model();
let wrong = 0;
try {
  for (const check of checks) {
    const verdict = model.verify(check);
    if (!verdict.isAsExpected) wrong += 1;
    console.log(lineOf(check, verdict));
  }
} finally {
  model.remove();
}
if (wrong > 0) {
  console.error(`${wrong} of ${checks.length} checks did not come out as expected.`);
  process.exitCode = 1;
}
