import type { CallHandler, ExecutionContext } from '@nestjs/common';
import { concatAll, defer, finalize, from, lastValueFrom, toArray, type Observable } from 'rxjs';
import { missingPeer } from '../../core/util/missing-peer.js';
import { inThisContext } from '../../core/util/this-context.js';
import { requirePeer } from '../../core/util/peers.js';
import type { Bypass, Call } from '../call/call.js';
import type { CallTransport } from '../call/call-transport.js';
import { RejectionMapper, type ClientExceptionClass } from '../call/rejection-errors.js';
import type { ValueRoute } from '../call/value-route.js';
import { misnamedIn, socketCall } from './socket-call.js';

/** Protects the handlers of Nest's WebSocket gateways, with any adapter. */
export class SocketTransport {
  private loading: Promise<RejectionMapper> | undefined;

  constructor(private readonly calls: CallTransport) {}

  /** Runs the handler, or emits its stored values instead. */
  intercept(context: ExecutionContext, next: CallHandler, route: ValueRoute): Observable<unknown> {
    const handle = inThisContext((disconnect: AbortController) =>
      this.handle(context, next, route, disconnect.signal),
    );
    return defer(() => {
      const disconnect = new AbortController();
      return from(handle(disconnect)).pipe(
        concatAll(),
        // Nest's adapters unsubscribe when the client disconnects; the handler still runs to its end.
        finalize(() => {
          disconnect.abort();
        }),
      );
    });
  }

  private async handle(
    context: ExecutionContext,
    next: CallHandler,
    route: ValueRoute,
    disconnect: AbortSignal,
  ): Promise<Observable<unknown>> {
    const failures = await this.failures();
    const prepared = this.calls.prepared(
      'websocket',
      socketCall(context, route, disconnect, failures),
      misnamedIn,
      context,
      route,
    );
    const call = await orClientError(prepared, failures);
    if (typeof call === 'string') {
      // The client may have left meanwhile: then nothing runs.
      return defer(() => {
        this.calls.reportUnprotected(route.operation, 'websocket', call);
        return next.handle();
      });
    }
    const result = await this.calls.settle(call, () =>
      lastValueFrom(next.handle().pipe(toArray())),
    );
    switch (result.kind) {
      case 'value':
        return from(result.value as readonly unknown[]);
      case 'failure':
        throw failures.toClientError(result.error);
      case 'rejected':
        throw failures.toClientError(result.error);
    }
  }

  /** At the first message: a gateway with its own port has clients before modules are initialized. */
  private failures(): Promise<RejectionMapper> {
    return (this.loading ??= wsFailures());
  }
}

async function orClientError(
  call: Promise<Call | Bypass>,
  failures: RejectionMapper,
): Promise<Call | Bypass> {
  try {
    return await call;
  } catch (error) {
    throw failures.toClientError(error);
  }
}

/** Loads the optional package, which every application with gateways has. */
async function wsFailures(): Promise<RejectionMapper> {
  try {
    const { WsException } = (requirePeer('@nestjs/websockets') ??
      (await import('@nestjs/websockets'))) as {
      WsException: ClientExceptionClass;
    };
    return new RejectionMapper(WsException);
  } catch (error) {
    throw missingPeer(error, '@nestjs/websockets', 'A gateway needs');
  }
}
