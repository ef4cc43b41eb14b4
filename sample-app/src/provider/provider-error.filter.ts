import { type ArgumentsHost, Catch, type ExceptionFilter, HttpStatus } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { ProviderError, type ProviderErrorCode } from './provider-error.js';

const statuses: Record<ProviderErrorCode, HttpStatus> = {
  card_declined: HttpStatus.PAYMENT_REQUIRED,
  refund_too_large: HttpStatus.BAD_REQUEST,
  provider_down: HttpStatus.SERVICE_UNAVAILABLE,
  provider_timeout: HttpStatus.GATEWAY_TIMEOUT,
  attempt_superseded: HttpStatus.CONFLICT,
};

/** Maps the provider's errors to responses of this API; a replay sends the same bytes. */
@Catch(ProviderError)
export class ProviderErrorFilter implements ExceptionFilter<ProviderError> {
  constructor(private readonly adapterHost: HttpAdapterHost) {}

  catch({ code, message }: ProviderError, host: ArgumentsHost): void {
    const statusCode = statuses[code];
    const response: unknown = host.switchToHttp().getResponse();
    this.adapterHost.httpAdapter.reply(response, { statusCode, code, message }, statusCode);
  }
}
