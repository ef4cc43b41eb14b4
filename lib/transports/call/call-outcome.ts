import {
  FailureReplayedError,
  OperationRejectedError,
  ValueNotStorableError,
} from '../../core/errors.js';
import type { Outcome } from '../../core/record.js';

/** The version of what stands in an outcome's header; it tells calls' outcomes from other transports' too. */
const FORMAT = 1;

interface CallOutcomeHeader {
  readonly call: typeof FORMAT;
  readonly kind: 'value' | 'undefined' | 'failure' | 'not_kept';
}

function outcome(kind: CallOutcomeHeader['kind'], body = ''): Outcome {
  return {
    header: JSON.stringify({ call: FORMAT, kind } satisfies CallOutcomeHeader),
    body: Buffer.from(body),
  };
}

/** "It is done, its value was not kept." */
export const VALUE_NOT_KEPT = outcome('not_kept');

/** A returned value as JSON, or why JSON has no text for it. */
export function encodeValue(value: unknown): Outcome | ValueNotStorableError {
  if (value === undefined) return outcome('undefined');
  // Typed as if it always answered with a text; it does not for functions and symbols.
  const stringify: (value: unknown) => string | undefined = JSON.stringify;
  try {
    const text = stringify(value);
    return text === undefined ? notStorable(undefined) : outcome('value', text);
  } catch (error) {
    return notStorable(error);
  }
}

/** What is replayed of a failure: its name and message, as far as they are text. */
export function encodeFailure(error: unknown): Outcome {
  return outcome('failure', JSON.stringify(describe(error)));
}

function describe(error: unknown): { name: string; message: string } {
  if (typeof error === 'string') return { name: 'Error', message: error };
  try {
    const { name, message } = (error ?? {}) as { name?: unknown; message?: unknown };
    return {
      name: typeof name === 'string' ? name : 'Error',
      message: typeof message === 'string' ? message : '',
    };
  } catch {
    // Anything can be thrown, also what cannot be looked at.
    return { name: 'Error', message: '' };
  }
}

/**
 * The value that an outcome holds.
 *
 * @throws {@link FailureReplayedError} when it holds a failure.
 * @throws {@link OperationRejectedError} when it holds neither.
 */
export function decodeOutcome({ header, body }: Outcome): unknown {
  const { call, kind } = parsed(header);
  const text = () => Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
  if (call === FORMAT && kind === 'undefined') return undefined;
  if (call === FORMAT && kind === 'value') return JSON.parse(text());
  if (call === FORMAT && kind === 'failure') {
    throw new FailureReplayedError(JSON.parse(text()) as { name: string; message: string });
  }
  throw new OperationRejectedError(
    'The operation was completed, its value was not kept.',
    'idempotency_response_not_kept',
    undefined,
  );
}

function notStorable(cause: unknown): ValueNotStorableError {
  return new ValueNotStorableError(
    'The operation was done, but JSON has no text for what it returned (a BigInt, a function, a symbol or a circle): repetitions will be told that its value was not kept. Return something that JSON can express.',
    { cause },
  );
}

/** Nothing of a header that is none of a call's. */
function parsed(header: string): Partial<CallOutcomeHeader> {
  try {
    return (JSON.parse(header) as Partial<CallOutcomeHeader> | null) ?? {};
  } catch {
    return {};
  }
}
