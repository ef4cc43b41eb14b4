import { describe, expect, it } from '@jest/globals';
import { IdempotencyOptionsError } from 'nestjs-idempotency';
import { missingPeer } from '../../../support/internals/core.js';

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
