import {
  Injectable,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import type { Observable } from 'rxjs';
import { HandlerTransports } from './registry/handler-transports.js';
import { HostClasses } from './registry/host-classes.js';

/**
 * Passes a request to its transport outside of the application's other global interceptors, where the module option
 * `isOutermost` binds it. The one on the route then passes the request on. It protects alone where Nest calls no global
 * interceptors, as in a microservice with a configuration of its own, and the first request of a handler that is unknown at
 * the start, which makes it known.
 */
@Injectable()
export class OutermostInterceptor implements NestInterceptor {
  private readonly taken = new WeakSet<ExecutionContext>();

  constructor(
    private readonly transports: HandlerTransports,
    classes: HostClasses,
  ) {
    transports.takenOutside = this.taken;
    classes.setOutermost(this);
  }

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const byClass = this.transports.known.get(context.getHandler());
    const known = byClass?.get(context.getClass())?.get(context.getType());
    if (known === undefined) return next.handle();
    // Nest gives all interceptors of a call the same context, also when one of them calls the next again.
    this.taken.add(context);
    return known.transport.intercept(context, next, known.route);
  }
}
