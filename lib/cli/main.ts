#!/usr/bin/env node
import { isIdempotencyError } from '../core/errors/errors.js';
import { MIGRATIONS_USAGE, migrationsOf } from './migrations.js';
import { DOCTOR_USAGE, UsageError } from './usage.js';

const USAGE = `${MIGRATIONS_USAGE}\n${DOCTOR_USAGE}`;

const print = (text: string) => {
  process.stdout.write(text);
};

try {
  process.exitCode = await run(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`${messageOf(error)}\n\n${USAGE}`);
  process.exitCode = 2;
}

/** @returns the exit code. */
async function run([command, ...args]: string[]): Promise<number> {
  if ([command, ...args].some((word) => word === '--help' || word === '-h')) {
    print(USAGE);
  } else if (command === 'doctor') {
    // It loads both stores, which no migration tool waits for.
    const { runDoctor } = await import('./doctor.js');
    return runDoctor(args, print);
  } else if (command === 'migrations') {
    print(migrationsOf(args));
  } else {
    throw new UsageError(`Unknown command "${command ?? ''}".`);
  }
  return 0;
}

/** One line for an error in the arguments, the stack for a bug. */
function messageOf(error: unknown): string {
  const isUsage = error instanceof UsageError || isIdempotencyError(error) || isParseError(error);
  return isUsage ? error.message : String(error instanceof Error ? error.stack : error);
}

function isParseError(error: unknown): error is Error {
  return (
    error instanceof Error && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS')
  );
}
