import {
  Inject,
  Injectable,
  Optional,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
  type OnModuleInit,
} from '@nestjs/common';
import { ModuleRef, ModulesContainer } from '@nestjs/core';
import type { Observable } from 'rxjs';
import { IdempotencyOptionsError } from '../core/util/errors.js';
import { entryOfMethod } from './discovery/handler-kinds.js';
import { markIdempotencyInterceptor } from './discovery/idempotent.metadata.js';
import { moduleMissing } from './discovery/module-registrations.js';
import type { HandlerRoutes } from './registry/handler-routes.js';
import { Transports } from './transports.js';

/** Passes a request to its transport. `@Idempotent()` binds it to its handlers. */
@Injectable()
export class IdempotencyInterceptor implements NestInterceptor, OnModuleInit {
  constructor(
    // Optional, because Nest's own message for a missing one names an internal class.
    @Optional() @Inject(Transports) private readonly transports: Transports | undefined,
    private readonly module: ModuleRef,
    private readonly modules: ModulesContainer,
  ) {}

  /** Of the IdempotencyModule nearest to the interceptor's module. */
  get routes(): HandlerRoutes | undefined {
    return this.transports?.routes;
  }

  /** @throws {@link IdempotencyOptionsError} if the interceptor's module does not see IdempotencyModule. */
  onModuleInit(): void {
    this.known();
  }

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    // Not a handler of a known transport: the method protects itself in every call.
    if (entryOfMethod(context.getHandler()) !== undefined) return next.handle();
    const intercept = this.known().of(context.getType());
    if (intercept === undefined) {
      throw new IdempotencyOptionsError(
        `@Idempotent() on ${context.getClass().name}.${context.getHandler().name} does not support requests of type "${context.getType()}". Use IdempotencyService.run() there.`,
      );
    }
    return intercept(context, next);
  }

  private known(): Transports {
    if (this.transports === undefined) {
      throw moduleMissing(this.modules, this.module, Transports);
    }
    return this.transports;
  }
}

markIdempotencyInterceptor(IdempotencyInterceptor);
