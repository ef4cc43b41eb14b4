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
import { entryOfMethod } from './discovery/handler-facts.js';
import { markIdempotencyInterceptor } from './discovery/idempotent.metadata.js';
import { moduleMissing } from './discovery/module-registrations.js';
import { HandlerTransports, type HandlerTransport } from './registry/handler-transports.js';

/** Passes a request to its transport. `@Idempotent()` binds it to its handlers. */
@Injectable()
export class IdempotencyInterceptor implements NestInterceptor, OnModuleInit {
  /** @internal As declared: tools that trace interceptors replace the method when the class is decorated. */
  static readonly declaredIntercept: unknown = Object.getOwnPropertyDescriptor(
    IdempotencyInterceptor.prototype,
    'intercept',
  )?.value;

  constructor(
    // Of the nearest IdempotencyModule. Optional, because Nest's own message for a missing one names an internal class.
    @Optional() @Inject(HandlerTransports) readonly transports: HandlerTransports | undefined,
    private readonly module: ModuleRef,
    private readonly modules: ModulesContainer,
  ) {}

  /** @throws {@link IdempotencyOptionsError} if the interceptor's module does not see IdempotencyModule. */
  onModuleInit(): void {
    this.ofModule();
  }

  /**
   * @internal The same on a route that has no other interceptor.
   * @param next - pipes and handler, as Nest calls them.
   * @returns `undefined` if the request needs {@link intercept}.
   */
  interceptAlone(
    context: ExecutionContext,
    next: () => Promise<unknown>,
  ): Promise<unknown> | undefined {
    const known = this.knownOf(context);
    return known?.transport.interceptAlone?.(context, next, known.route);
  }

  /** @internal Whether other interceptors may be called in turn around {@link intercept}, which then throws nothing. */
  isInnermost(context: ExecutionContext): boolean {
    if (this.transports?.takenOutside !== undefined) return false;
    const known = this.knownOf(context);
    return known?.transport.isFast?.(context, known.route) === true;
  }

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const contextType = context.getType();
    const type = context.getClass();
    const handler = context.getHandler();
    const linked = this.transports?.signals?.linked(next) ?? next;
    if (this.transports?.takenOutside?.has(context) === true) return linked.handle();
    const known = this.transports?.known.get(handler)?.get(type)?.get(contextType);
    // Not a handler of a known transport: the method protects itself in every call.
    if (known === undefined && entryOfMethod(handler) !== undefined) return next.handle();
    const { transport, route } = known ?? this.ofModule().add(contextType, type, handler);
    return transport.intercept(context, linked, route);
  }

  private knownOf(context: ExecutionContext): HandlerTransport | undefined {
    const handlers = this.transports?.known.get(context.getHandler());
    return handlers?.get(context.getClass())?.get(context.getType());
  }

  private ofModule(): HandlerTransports {
    if (this.transports === undefined) {
      throw moduleMissing(this.modules, this.module, HandlerTransports);
    }
    return this.transports;
  }
}

markIdempotencyInterceptor(IdempotencyInterceptor);
