import {
  HttpException,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
} from '@nestjs/common';
import { defer, from, merge, mergeMap, take, throwError, type Observable } from 'rxjs';
import { scenarioOf, type Scenario } from './scenario.js';

export type Around = (next: CallHandler, scenario: Scenario) => Observable<unknown>;

/**
 * An interceptor made of one function. Decorators apply from the bottom: below `@Idempotent()` it is outside
 * it, above it is inside.
 */
export const Around = (around: Around) =>
  UseInterceptors({
    intercept: (context: ExecutionContext, next: CallHandler) =>
      around(next, scenarioOf(context.switchToHttp().getRequest())),
  });

/** Responds with 503 in place of the handler when the scenario's timeout fires: once each time it is opened. */
export const givingUp: Around = (next, scenario) =>
  defer(() => {
    const timeout = from(scenario.timeout.pass()).pipe(
      mergeMap(() => {
        scenario.timeout.close();
        return throwError(() => new HttpException('too slow', 503));
      }),
    );
    return merge(next.handle(), timeout).pipe(take(1));
  });
