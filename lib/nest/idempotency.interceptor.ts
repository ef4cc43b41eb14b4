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
import type { RouteRegistry } from './registry/route-registry.js';
import { Transports } from './transports.js';

/** Hands a request to its transport; bound by `@Idempotent()` to the handlers that it stands on, and to no others. */
@Injectable()
export class IdempotencyInterceptor implements NestInterceptor, OnModuleInit {
  constructor(
    // Optional, because what Nest says of a missing one names what no user has heard of.
    @Optional() @Inject(Transports) private readonly transports: Transports | undefined,
    private readonly module: ModuleRef,
    private readonly modules: ModulesContainer,
  ) {}

  /** Of the IdempotencyModule that is nearest to the module which it is bound in. */
  get routes(): RouteRegistry | undefined {
    return this.transports?.routes;
  }

  /** @throws {@link IdempotencyOptionsError} where the module that it is bound in does not see IdempotencyModule. */
  onModuleInit(): void {
    this.known();
  }

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    // No handler of a request that is known here: it runs once by itself, whoever calls it.
    if (entryOfMethod(context.getHandler()) !== undefined) return next.handle();
    const intercept = this.known().of(context.getType());
    if (intercept === undefined) {
      throw new IdempotencyOptionsError(
        `@Idempotent() on ${context.getClass().name}.${context.getHandler().name} met a request of type "${context.getType()}", which it does not know. Use IdempotencyService.run() there.`,
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
