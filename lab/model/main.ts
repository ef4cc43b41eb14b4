/**
 * Checks the protocol of a record against its model, state by state: README.md beside this file.
 */
import { parseArgs } from 'node:util';
import { fromCommandLine } from '../command-line.js';
import { keepReport } from '../../test/support/docs/figures/report.js';
import { CHECKS } from './checks.js';
import { REPORT, rowsOf } from './figures.js';
import { lineOf, Model, type Verdict } from './model.js';

const USAGE = `npm run lab -- model [NAME] [--report]

  NAME       the runs with that in their name; without it each run
  --report   keep the states in docs/measurements/figures/${REPORT}.json, and show them in docs/explanation/protocol.md`;

const { checks, isKept } = fromCommandLine(USAGE, (args) => {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { report: { type: 'boolean' } },
  });
  const named = CHECKS.filter(({ name }) => positionals.every((part) => name.includes(part)));
  if (named.length === 0) throw new Error(`No run has a name with: ${positionals.join(' ')}`);
  return { checks: named, isKept: values.report === true };
});

const model = new Model();
const verdicts = new Map<string, Verdict>();
let wrong = 0;
try {
  for (const check of checks) {
    const verdict = model.verify(check);
    if (!verdict.isAsExpected) wrong += 1;
    verdicts.set(check.name, verdict);
    console.log(lineOf(check, verdict));
  }
} finally {
  model.remove();
}
if (wrong > 0) {
  console.error(`${wrong} of ${checks.length} runs did not come out as expected.`);
  process.exitCode = 1;
} else if (isKept) {
  const rows = rowsOf(verdicts, model.version, new Date().toISOString().slice(0, 10));
  keepReport(REPORT, 'model', [], { Spin: model.version }, rows);
}
