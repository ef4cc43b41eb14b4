import { Catch, HttpException, HttpStatus, type ArgumentsHost } from '@nestjs/common';
import { BaseExceptionFilter } from '@nestjs/core';
import { OperationRejectedError } from 'nestjs-idempotency';

/** What a client gets when the command did not run. On a protected route the library responds itself. */
@Catch(OperationRejectedError)
export class RejectionFilter extends BaseExceptionFilter<OperationRejectedError> {
  override catch(error: OperationRejectedError, host: ArgumentsHost): void {
    const { code, message, retryAfterMs } = error;
    const isTemporary = retryAfterMs !== undefined;
    if (isTemporary) {
      const response = host
        .switchToHttp()
        .getResponse<{ header(name: string, value: string): void }>();
      response.header('Retry-After', String(Math.ceil(retryAfterMs / 1000)));
    }
    const status = isTemporary ? HttpStatus.SERVICE_UNAVAILABLE : HttpStatus.CONFLICT;
    super.catch(new HttpException({ code, message }, status) as never, host);
  }
}
