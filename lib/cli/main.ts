#!/usr/bin/env node
import { text as textOf } from 'node:stream/consumers';
import { isIdempotencyError } from '../core/errors/errors.js';
import { missingPeer } from '../core/util/missing-peer.js';
import { runDocs } from './docs.js';
import { isOperatorCommand } from './operator/arguments.js';
import { runMigrate, runStatus, sqlOf } from './schema.js';
import { MAY_BE_DONE, ServerFailure, UsageError } from './servers/failures.js';
import { DOCS_USAGE, DOCTOR_USAGE, OPERATOR_USAGE, SCHEMA_USAGE } from './usage.js';

const USAGE = [SCHEMA_USAGE, DOCTOR_USAGE, OPERATOR_USAGE, DOCS_USAGE].join('\n');

const print = (text: string) => {
  process.stdout.write(text);
};

process.stdout.on('error', ({ code = '' }: NodeJS.ErrnoException) => {
  // Its reader has seen enough, as `head` has: what was asked for is done all the same, and the exit code says so.
  if (code === 'EPIPE') return;
  process.stderr.write(`The output cannot be written (${code}). What was asked for may be done.\n`);
  process.exitCode = MAY_BE_DONE;
});

try {
  const exitCode = await run(process.argv.slice(2));
  process.exitCode ??= exitCode;
} catch (error) {
  process.stderr.write(messageOf(error));
  process.exitCode = error instanceof ServerFailure ? error.exitCode : 2;
}

/** @returns the exit code. */
async function run([command, ...args]: string[]): Promise<number> {
  if ([command, ...args].some((word) => word === '--help' || word === '-h')) {
    print(USAGE);
    return 0;
  }
  if (isOperatorCommand(command)) {
    const { runOperator } = await loadOperator();
    return runOperator(command, args, {
      print,
      note: (text) => process.stderr.write(text),
      progress,
      readInput: () => textOf(process.stdin),
      environment: process.env,
    });
  }
  switch (command) {
    case 'docs':
      return runDocs(args, process.argv[1] ?? '', print);
    case 'doctor': {
      // It loads both stores, which no migration tool waits for.
      const { runDoctor } = await import('./doctor.js');
      return runDoctor(args, print);
    }
    case 'status':
      return runStatus(args, print);
    case 'migrate':
      await runMigrate(args, print);
      return 0;
    case 'sql':
      print(await sqlOf(args));
      return 0;
    default:
      throw new UsageError(`Unknown command "${command ?? ''}".`);
  }
}

/** It loads Nest, as the application does. */
async function loadOperator() {
  try {
    return await import('./operate.js');
  } catch (error) {
    throw missingPeer(
      error,
      '@nestjs/common',
      'The command runs in the folder of the application, with',
    );
  }
}

/** Only for who watches. */
function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${text}`);
}

/** One line for a failure of the server, the usage after an error in the arguments, the stack for a bug. */
function messageOf(error: unknown): string {
  if (error instanceof ServerFailure) return `${error.message}\n`;
  const usage = isParseError(error) ? new UsageError(error.message) : error;
  if (usage instanceof UsageError || isIdempotencyError(usage)) {
    return `${usage.message} [${usage.code}]\n\n${USAGE}`;
  }
  return `${String(error instanceof Error ? error.stack : error)}\n`;
}

function isParseError(error: unknown): error is Error {
  return (
    error instanceof Error && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS')
  );
}
