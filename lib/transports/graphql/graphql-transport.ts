import type { CallHandler, ExecutionContext } from '@nestjs/common';
import { defer, lastValueFrom, type Observable } from 'rxjs';
import { isAwaited } from '../../core/operation/options.js';
import { valueOf, type CallTransport } from '../call/call-transport.js';
import { departureOf } from './departure.js';
import { toldError } from './field-error.js';
import { graphqlCall } from './graphql-call.js';
import { fieldOf } from './graphql-field.js';
import type { GraphqlRoute } from './graphql-route.js';

/** Protects the mutations of Nest's resolvers: value in, value out, one execution for each field of a document. */
export class GraphqlTransport {
  constructor(private readonly calls: CallTransport) {}

  /** Runs the resolver, or gives in its place what it returned the first time. */
  intercept(
    context: ExecutionContext,
    next: CallHandler,
    route: GraphqlRoute,
  ): Observable<unknown> {
    return defer(() => this.settle(context, next, route));
  }

  private async settle(
    context: ExecutionContext,
    next: CallHandler,
    route: GraphqlRoute,
  ): Promise<unknown> {
    const field = fieldOf(context);
    // Only who waits can leave.
    const departure = departureOf(isAwaited(route.protocol) ? field.request : undefined);
    const run = () => valueFrom(next);
    try {
      const call = await graphqlCall(context, field, route);
      if (call === undefined) return await run();
      return valueOf(await this.calls.settle({ ...call, callerGone: departure.signal }, run));
    } catch (error) {
      throw toldError(error);
    } finally {
      departure.forget();
    }
  }
}

async function valueFrom(next: CallHandler): Promise<unknown> {
  const value: unknown = await lastValueFrom(next.handle());
  // GraphQL takes an error that is returned for one that is thrown.
  if (value instanceof Error) throw value;
  return value;
}
