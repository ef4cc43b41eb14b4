import type { CallHandler, ExecutionContext } from '@nestjs/common';
import { concatAll, defer, finalize, from, lastValueFrom, toArray, type Observable } from 'rxjs';
import { missingPeer } from '../../core/util/missing-peer.js';
import type { Call } from '../call/call.js';
import type { CallTransport } from '../call/call-transport.js';
import { RejectionMapper, type ClientExceptionClass } from '../call/rejection-errors.js';
import type { ValueRoute } from '../call/value-route.js';
import { socketCall } from './socket-call.js';

/** Protects the handlers of Nest's WebSocket gateways: value in, values out, whichever way its adapter sends them. */
export class SocketTransport {
  private loading: Promise<RejectionMapper> | undefined;

  constructor(private readonly calls: CallTransport) {}

  /** Runs the handler, or gives in its place what it emitted the first time. */
  intercept(context: ExecutionContext, next: CallHandler, route: ValueRoute): Observable<unknown> {
    return defer(() => {
      const disconnect = new AbortController();
      return from(this.handle(context, next, route, disconnect.signal)).pipe(
        concatAll(),
        // Nest's adapters let go of an answer when its client leaves; the handler is not to notice.
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
    const call = await reserved(socketCall(context, route, disconnect, failures), failures);
    if (call === undefined) return next.handle();
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

  /** When the first message comes, for a gateway on a port of its own has clients before modules are initialized. */
  private failures(): Promise<RejectionMapper> {
    return (this.loading ??= wsFailures());
  }
}

async function reserved(
  call: Promise<Call | undefined>,
  failures: RejectionMapper,
): Promise<Call | undefined> {
  try {
    return await call;
  } catch (error) {
    throw failures.toClientError(error);
  }
}

/** Loads the package, which is there where a gateway is. */
async function wsFailures(): Promise<RejectionMapper> {
  try {
    const { WsException } = (await import('@nestjs/websockets')) as {
      WsException: ClientExceptionClass;
    };
    return new RejectionMapper(WsException);
  } catch (error) {
    throw missingPeer(error, '@nestjs/websockets', 'A gateway needs');
  }
}
