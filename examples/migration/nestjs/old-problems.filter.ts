import { STATUS_CODES } from 'node:http';
import { Catch, HttpException, type ArgumentsHost } from '@nestjs/common';
import { BaseExceptionFilter } from '@nestjs/core';
import { IdempotencyProblem, type IdempotencyErrorCode } from 'nestjs-idempotency';

/** The codes of the old module. What it does not have is answered with the code of this package. */
const OLD_CODES: Partial<Record<IdempotencyErrorCode, string>> = {
  idempotency_key_missing: 'IDEMPOTENCY_KEY_REQUIRED',
  idempotency_key_invalid: 'IDEMPOTENCY_KEY_INVALID',
  idempotency_in_progress: 'IDEMPOTENCY_KEY_IN_USE',
  idempotency_key_reused: 'IDEMPOTENCY_KEY_REUSED',
  idempotency_outcome_unreadable: 'IDEMPOTENCY_RECORD_UNREADABLE',
};

/** Answers rejections with the JSON bodies and codes of `@nestjs/idempotency`. Status and header fields stay. */
@Catch(IdempotencyProblem)
export class OldProblemsFilter extends BaseExceptionFilter {
  override catch(problem: IdempotencyProblem, host: ArgumentsHost) {
    const statusCode = problem.getStatus();
    const body = {
      statusCode,
      error: STATUS_CODES[statusCode],
      code: OLD_CODES[problem.code] ?? problem.code,
      message: problem.message,
    };
    super.catch(new HttpException(body, statusCode), host);
  }
}
