import type { CallHandler, ExecutionContext } from '@nestjs/common';
import { defer, lastValueFrom, type Observable } from 'rxjs';
import { inThisContext } from '../../core/util/this-context.js';
import { valueOf, type CallTransport } from '../call/call-transport.js';
import { toFieldError } from './field-error.js';
import { misnamedIn } from './field-key.js';
import { graphqlCall } from './graphql-call.js';
import { fieldOf, type FieldRequest } from './graphql-field.js';
import type { GraphqlRoute } from './graphql-route.js';

/** Protects the mutations of Nest's resolvers: one execution for each field of a document. */
export class GraphqlTransport {
  constructor(private readonly calls: CallTransport) {}

  /** Runs the resolver, or returns its stored value instead. */
  intercept(
    context: ExecutionContext,
    next: CallHandler,
    route: GraphqlRoute,
  ): Observable<unknown> {
    return defer(inThisContext(() => this.settle(context, next, route)));
  }

  private async settle(
    context: ExecutionContext,
    next: CallHandler,
    route: GraphqlRoute,
  ): Promise<unknown> {
    const field = fieldOf(context);
    // Only a caller that waits can disconnect meanwhile.
    const clientDisconnect = clientDisconnectOf(
      route.options.duplicates.mode === 'wait' ? field.request : undefined,
    );
    const run = () => valueFrom(next);
    try {
      const prepared = graphqlCall(context, field, route);
      const call = await this.calls.prepared('graphql', prepared, misnamedIn, context, route);
      if (typeof call === 'string') {
        this.calls.reportUnprotected(route.operation, 'graphql', call);
        return await run();
      }
      return valueOf(
        await this.calls.settle({ ...call, clientSignal: clientDisconnect.signal }, run),
      );
    } catch (error) {
      throw toFieldError(error);
    } finally {
      clientDisconnect.forget();
    }
  }
}

async function valueFrom(next: CallHandler): Promise<unknown> {
  const value: unknown = await lastValueFrom(next.handle());
  // GraphQL treats a returned error as a thrown one.
  if (value instanceof Error) throw value;
  return value;
}

/** Watches for the client's disconnect. */
export interface ClientDisconnect {
  readonly signal: AbortSignal;
  /** Stops watching. */
  forget(): void;
}

interface Connection {
  readonly destroyed?: boolean;
  once(event: 'close', listener: () => void): unknown;
  removeListener(event: 'close', listener: () => void): unknown;
}

/** @param request - without one, the signal is never aborted. */
export function clientDisconnectOf(request: FieldRequest | undefined): ClientDisconnect {
  const disconnect = new AbortController();
  const leave = () => {
    disconnect.abort();
  };
  const { stream, socket } = request?.raw ?? request ?? {};
  const connection = [stream, socket].find(isConnection);
  if (connection?.destroyed === true) leave();
  connection?.once('close', leave);
  return {
    signal: disconnect.signal,
    forget: () => {
      connection?.removeListener('close', leave);
    },
  };
}

function isConnection(value: unknown): value is Connection {
  return typeof (value as Partial<Connection> | null | undefined)?.once === 'function';
}
