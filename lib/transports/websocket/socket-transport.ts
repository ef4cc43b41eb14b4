import type { CallHandler, ExecutionContext } from '@nestjs/common';
import { concatAll, defer, finalize, from, lastValueFrom, toArray, type Observable } from 'rxjs';
import { missingPeer } from '../../core/util/missing-peer.js';
import type { Call } from '../call/call.js';
import type { CallTransport } from '../call/call-transport.js';
import { ToldFailures, type ToldExceptionClass } from '../call/rejection-errors.js';
import type { ValueRoute } from '../call/value-route.js';
import { socketCall } from './socket-call.js';

/** Protects the handlers of Nest's WebSocket gateways: value in, values out, whichever way its adapter sends them. */
export class SocketTransport {
  private loading: Promise<ToldFailures> | undefined;

  constructor(private readonly calls: CallTransport) {}

  /** Runs the handler, or gives in its place what it emitted the first time. */
  intercept(context: ExecutionContext, next: CallHandler, route: ValueRoute): Observable<unknown> {
    return defer(() => {
      const gone = new AbortController();
      return from(this.answer(context, next, route, gone.signal)).pipe(
        concatAll(),
        // Nest's adapters let go of an answer when its client leaves; the handler is not to notice.
        finalize(() => {
          gone.abort();
        }),
      );
    });
  }

  private async answer(
    context: ExecutionContext,
    next: CallHandler,
    route: ValueRoute,
    gone: AbortSignal,
  ): Promise<Observable<unknown>> {
    const failures = await this.failures();
    const call = await claimed(socketCall(context, route, gone, failures), failures);
    if (call === undefined) return next.handle();
    const result = await this.calls.settle(call, () =>
      lastValueFrom(next.handle().pipe(toArray())),
    );
    switch (result.kind) {
      case 'value':
        return from(result.value as readonly unknown[]);
      case 'failure':
        throw failures.refusal(result.error);
      case 'rejected':
        throw failures.refusal(result.error);
    }
  }

  /** When the first message comes, for a gateway on a port of its own has clients before modules are initialized. */
  private failures(): Promise<ToldFailures> {
    return (this.loading ??= wsFailures());
  }
}

async function claimed(
  call: Promise<Call | undefined>,
  failures: ToldFailures,
): Promise<Call | undefined> {
  try {
    return await call;
  } catch (error) {
    throw failures.refusal(error);
  }
}

/** Loads the package, which is there where a gateway is. */
async function wsFailures(): Promise<ToldFailures> {
  try {
    const { WsException } = (await import('@nestjs/websockets')) as {
      WsException: ToldExceptionClass;
    };
    return new ToldFailures(WsException);
  } catch (error) {
    throw missingPeer(error, '@nestjs/websockets', 'A gateway needs');
  }
}
