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

/**
 * A returned value as JSON.
 *
 * @throws {@link ValueNotStorableError} when JSON has no text for it.
 */
export function encodeValue(value: unknown): Outcome {
  if (value === undefined) return outcome('undefined');
  // Typed as if it always answered with a text; it does not for functions and symbols.
  const stringify: (value: unknown) => string | undefined = JSON.stringify;
  let text: string | undefined;
  try {
    text = stringify(value);
  } catch (error) {
    throw notStorable(error);
  }
  if (text === undefined) throw notStorable(undefined);
  return outcome('value', text);
}

/** What is replayed of a failure: its name and message. */
export function encodeFailure(error: unknown): Outcome {
  const { name, message } =
    error instanceof Error ? error : { name: 'Error', message: String(error) };
  return outcome('failure', JSON.stringify({ name, message }));
}

/**
 * The value that an outcome holds.
 *
 * @throws {@link FailureReplayedError} when it holds a failure.
 * @throws {@link OperationRejectedError} when it holds neither.
 */
export function decodeOutcome({ header, body }: Outcome): unknown {
  const { call, kind } = JSON.parse(header) as Partial<CallOutcomeHeader>;
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
