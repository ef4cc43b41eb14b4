import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { descendantsOf } from './cpu.mjs';

const JEST = createRequire(import.meta.url).resolve('jest/bin/jest');
const NODE_OPTIONS = '--experimental-vm-modules --disable-warning=ExperimentalWarning';
/**
 * For workers, not for what tests start. The modules of a file are many and short-lived: to import all files
 * took 77 CPU seconds instead of 92.
 */
const YOUNG_SPACE = '--max-semi-space-size=64';
/** The exit code where tests have failed, and Jest has ended normally. */
export const TESTS_FAILED = 100;
const REPORTERS = ['default', join(import.meta.dirname, 'reporter.mjs')];

/**
 * Runs Jest in the working directory.
 *
 * @param scratch - a folder for its records.
 * @param name - unique in that folder.
 * @param deadline - when it is ended, by `Date.now()`.
 * @returns `{ status, isComplete, isEmpty, files, leftOut, costs }`; `isEmpty` where no file was chosen. A
 * file is `{ file, passed, failed, message, hasEnded }`: one that had not finished when Jest was ended has
 * failed.
 */
export async function runJest({ scratch, name, args, deadline = Infinity }) {
  const TEST_REPORT = join(scratch, `${name}.jsonl`);
  const TEST_COSTS = join(scratch, `${name}-costs.jsonl`);
  const reporters = REPORTERS.map((reporter) => `--reporters=${reporter}`);
  const ours = [...reporters, `--testFailureExitCode=${TESTS_FAILED}`];
  const jest = spawn(process.execPath, [YOUNG_SPACE, JEST, ...args, ...ours], {
    stdio: 'inherit',
    env: {
      ...process.env,
      NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} ${NODE_OPTIONS}`.trim(),
      TEST_REPORT,
      TEST_COSTS,
    },
  });
  const status = await exitOf(jest, deadline);
  return { status, ...summaryOf(linesOf(TEST_REPORT)), costs: linesOf(TEST_COSTS) };
}

function exitOf(child, deadline) {
  return new Promise((resolve) => {
    // Each by its id: a worker in an endless loop does not notice that Jest is gone.
    const end = () => {
      for (const pid of [...descendantsOf(child.pid), child.pid]) {
        try {
          process.kill(pid, 'SIGKILL');
        } catch {
          // It has ended meanwhile.
        }
      }
    };
    // A timer holds 24 days.
    const timer = setTimeout(end, Math.min(2 ** 31 - 1, Math.max(0, deadline - Date.now())));
    const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
    for (const signal of signals) process.on(signal, end);
    child.once('close', (status) => {
      clearTimeout(timer);
      for (const signal of signals) process.off(signal, end);
      resolve(status);
    });
  });
}

function summaryOf(lines) {
  const files = new Map();
  for (const { begun, ended, passed, failed, message } of lines) {
    if (begun) files.set(begun, { passed: 0, failed: 1, message: '', hasEnded: false });
    if (ended) files.set(ended, { passed, failed, message, hasEnded: true });
  }
  return {
    isComplete: lines.some((line) => line.isComplete),
    isEmpty: lines.some(({ chosen }) => chosen === 0),
    files: [...files].map(([file, result]) => ({ file, ...result })),
    leftOut: lines.flatMap((line) => line.leftOut ?? []),
  };
}

function linesOf(file) {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean);
  return lines.map((line) => JSON.parse(line));
}
