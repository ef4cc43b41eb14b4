import {
  Injectable,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import type { Observable } from 'rxjs';
import { IdempotencyOptionsError } from '../core/errors.js';
import { entryOfCall } from './calls/call-methods.js';
import { markLayer } from './idempotent.metadata.js';
import { Transports } from './transports.js';

/** Hands a request to its transport; bound by `@Idempotent()` to the handlers that it stands on, and to no others. */
@Injectable()
export class IdempotencyInterceptor implements NestInterceptor {
  constructor(private readonly transports: Transports) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    // No handler of a request that is known here: it runs once by itself, whoever calls it.
    if (entryOfCall(context.getHandler()) !== undefined) return next.handle();
    const intercept = this.transports.of(context.getType());
    if (intercept === undefined) {
      throw new IdempotencyOptionsError(
        `@Idempotent() on ${context.getClass().name} met a request of type "${context.getType()}", which it does not know. Use IdempotencyService.run() there.`,
      );
    }
    return intercept(context, next);
  }
}

markLayer(IdempotencyInterceptor);
