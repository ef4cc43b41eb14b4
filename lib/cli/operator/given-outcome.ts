import { readFile } from 'node:fs/promises';
import { errorTypeOf } from '../../core/errors/errors.js';
import type { GivenOutcome } from '../../core/operator/operator.js';
import { UsageError } from '../servers/failures.js';
import type { Given } from './arguments.js';

const ANSWER = ['status', 'headers', 'body'];

/** Reads what `complete` stores: from a file, or from the input, so that no list of processes shows it. */
export function givenOutcome(
  { value, answer }: Given,
  readInput: () => Promise<string>,
): (() => Promise<GivenOutcome>) | undefined {
  if (value !== undefined && answer !== undefined) {
    throw new UsageError('Pass either --value or --answer.');
  }
  if (value !== undefined) {
    return async () => ({ kind: 'value', value: await jsonIn('value', value, readInput) });
  }
  if (answer === undefined) return undefined;
  return async () => {
    const given = await jsonIn('answer', answer, readInput);
    const isAnswer =
      typeof given === 'object' &&
      given !== null &&
      'status' in given &&
      Object.keys(given).every((name) => ANSWER.includes(name));
    if (!isAnswer) {
      throw new UsageError(
        '--answer must be a JSON object with "status", and "headers" and "body" where there are any.',
      );
    }
    return { ...given, kind: 'answer' } as GivenOutcome;
  };
}

/** Its errors show nothing of it. */
async function jsonIn(
  option: string,
  from: string,
  readInput: () => Promise<string>,
): Promise<unknown> {
  const text = await (from === '-' ? readInput() : readFile(from, 'utf8')).catch(
    (error: unknown) => {
      throw new UsageError(`--${option}: the file cannot be read (${String(errorTypeOf(error))}).`);
    },
  );
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new UsageError(`--${option}: what was read is not JSON.`);
  }
}
