import {
  Injectable,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import type { Observable } from 'rxjs';
import { IdempotencyOptionsError } from '../core/errors.js';
import { HttpTransport } from '../transports/http/http-transport.js';
import { markLayer } from './idempotent.metadata.js';
import { RouteRegistry } from './route-registry.js';

/** Hands a request to its transport; bound by `@Idempotent()` to the routes that it stands on, and to no others. */
@Injectable()
export class IdempotencyInterceptor implements NestInterceptor {
  constructor(
    private readonly http: HttpTransport,
    private readonly routes: RouteRegistry,
  ) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    if (context.getType() !== 'http') {
      throw new IdempotencyOptionsError(
        `@Idempotent() on ${context.getClass().name} met a request of type "${context.getType()}": only HTTP is supported. Use IdempotencyService.run() there.`,
      );
    }
    return this.http.intercept(
      context,
      next,
      this.routes.of(context.getClass(), context.getHandler()),
    );
  }
}

markLayer(IdempotencyInterceptor);
