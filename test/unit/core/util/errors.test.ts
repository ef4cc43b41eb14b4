import { describe, expect, it } from '@jest/globals';
import {
  ContentNotComparableError,
  FailureReplayedError,
  IdempotencyError,
  IdempotencyOptionsError,
  IdempotencyProblem,
  isIdempotencyError,
  NoIdempotencyContextError,
  OperationRejectedError,
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreReplyMismatchedError,
  StoreUnavailableError,
  ValueNotStorableError,
} from 'nestjs-idempotency';
import { missingPeer } from '../../../support/internals/core.js';

const errors: [Error & { code: string }, string][] = [
  [new ContentNotComparableError('m'), 'idempotency_content_invalid'],
  [new FailureReplayedError({ name: 'n', message: 'm' }), 'idempotency_failure_replayed'],
  [new IdempotencyOptionsError('m'), 'idempotency_options_invalid'],
  [new NoIdempotencyContextError('m'), 'idempotency_no_context'],
  [new OperationRejectedError('m', 'idempotency_in_progress', 1), 'idempotency_in_progress'],
  [new StoreConfigurationError('m'), 'idempotency_store_misconfigured'],
  [new StoreOutcomeUnknownError('m'), 'idempotency_store_outcome_unknown'],
  [new StoreReplyMismatchedError('m'), 'idempotency_store_reply_mismatched'],
  [new StoreUnavailableError('m'), 'idempotency_store_unavailable'],
  [new ValueNotStorableError('m'), 'idempotency_value_not_storable'],
];

describe('an error of the library', () => {
  it.each(errors)('%s has a stable code and its class as its name', (error, code) => {
    expect(error.code).toBe(code);
    expect(error.name).toBe(error.constructor.name);
    expect(error).toBeInstanceOf(IdempotencyError);
    expect(isIdempotencyError(error)).toBe(true);
  });

  it('is recognized even from another copy of the package', () => {
    const foreign = Object.assign(new Error('m'), { code: 'idempotency_in_progress' });
    expect(isIdempotencyError(foreign)).toBe(true);
  });

  it('is also the HTTP response', () => {
    const problem = IdempotencyProblem.of('idempotency_key_missing', {
      typeBase: 'https://api.example/problems',
      retryAfterMs: 1,
    });
    expect(isIdempotencyError(problem)).toBe(true);
  });

  it.each([
    ['a plain error', new Error('m')],
    ['an error with another code', Object.assign(new Error('m'), { code: 'ECONNREFUSED' })],
    ['an error with a numeric code', Object.assign(new Error('m'), { code: 11000 })],
    ['a lookalike', { code: 'idempotency_in_progress', message: 'm' }],
    ['null', null],
    ['undefined', undefined],
  ])('is not %s', (_, other) => {
    expect(isIdempotencyError(other)).toBe(false);
  });

  it('that rejects an operation says whether a retry can help', () => {
    const rejection = (retryAfterMs: number | undefined) =>
      new OperationRejectedError('m', 'idempotency_in_progress', retryAfterMs).retryable;
    expect(rejection(1_000)).toBe(true);
    expect(rejection(undefined)).toBe(false);
  });
});

const failed = (code?: string) => Object.assign(new Error('from the loader'), { code });
const reported = (error: unknown) =>
  missingPeer(error, 'pg', 'postgresStore opens its connections with');

describe('a peer that could not be loaded', () => {
  it.each(['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND'])(
    'is named, with how to install it: %s',
    (code) => {
      const error = failed(code);
      expect(reported(error)).toBeInstanceOf(IdempotencyOptionsError);
      expect(reported(error)).toMatchObject({
        code: 'idempotency_options_invalid',
        message:
          'postgresStore opens its connections with pg, which is not installed: npm install pg',
        cause: error,
      });
    },
  );

  it.each([failed(), failed('ERR_DLOPEN_FAILED'), 'a string', undefined])(
    'for any other reason rejects with that reason: %p',
    (error) => {
      expect(reported(error)).toBe(error);
    },
  );
});
