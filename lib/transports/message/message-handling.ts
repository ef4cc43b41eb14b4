import type { CallHandler, ExecutionContext } from '@nestjs/common';
import { defer, lastValueFrom, toArray, type Observable } from 'rxjs';
import { ContentNotComparableError } from '../../core/record/canonical-json.js';
import type { Fingerprint } from '../../core/record/record.js';
import { hasCode } from '../../core/util/errors.js';
import { ignoreResult } from '../../core/util/maybe-async.js';
import { missingPeer } from '../../core/util/missing-peer.js';
import { monotonicNow } from '../../core/util/time.js';
import type { Call, CallResult } from '../call/call.js';
import type { CallTransport } from '../call/call-transport.js';
import { emissionsFormat, nothingFormat } from '../call/outcome-format.js';
import { RejectionMapper, type ClientExceptionClass } from '../call/rejection-errors.js';
import { payloadContent } from '../common/payload-fingerprint.js';
import type { RequestContent } from '../common/request-content.js';
import { isEnabled } from '../common/request-options.js';
import type { Delivery } from './deliveries/delivery.js';
import { pauseDelivery } from './pause-delivery.js';
import { messageKey, messageScope } from './message-request.js';
import type { FailureAction, ResolvedMessageOptions } from './message-options.js';
import type { MessageRoute } from './message-route.js';
import { patternOf } from './source/rpc-context.js';

/** Over what a key is unique with `keyScope: 'principal'`: all operations of the consumer, and nobody else's. */
const ALL_OF_A_CONSUMER = 'nestjs-idempotency/messages';

/**
 * What a message that is handed back waits for at the least, before jitter: the broker sends it again at once, and five
 * times a second are enough.
 */
const MIN_REQUEUE_DELAY_MS = 400;

/** One message on its way through the layer, until it is known how it ended. */
export class MessageHandling {
  constructor(
    private readonly calls: CallTransport,
    private readonly context: ExecutionContext,
    private readonly next: CallHandler,
    private readonly route: MessageRoute,
    private readonly delivery: Delivery,
    private readonly failures: RejectionMapper,
  ) {}

  /** Never rejects. */
  async end(): Promise<MessageEnd> {
    const { context, route } = this;
    try {
      const isProtected = isEnabled(context, route.operation, route.options);
      const key = isProtected ? messageKey(context, route) : undefined;
      if (key === undefined) {
        return { kind: 'emitted', values: await this.run(), isStored: false };
      }
      return await this.settle(await this.callOf(key));
    } catch (error) {
      return { kind: 'failed', error, isFinal: false };
    }
  }

  private async callOf(key: string): Promise<Call> {
    const { context, route, delivery } = this;
    const { operation, options, protocol, codec } = route;
    const { isEvent } = delivery;
    const content = payloadContent(patternOf(context), context.switchToRpc().getData());
    return {
      operation,
      keyOperation: options.keyScope === 'operation' ? operation : ALL_OF_A_CONSUMER,
      key,
      scope: await messageScope(context, route),
      fingerprint: this.fingerprintOf(content),
      // What the handler has handed back is no outcome, whatever the policy says of errors.
      keep: (summary) => !delivery.isReturnedByHandler && options.keep(summary),
      // Of an event nobody hears what its handler returned.
      format: isEvent ? nothingFormat(codec) : emissionsFormat(codec, this.failures),
      maxStoredBytes: isEvent ? options.maxStoredBytes : route.maxStoredBytes,
      options: protocol,
      waitAtMostMs: delivery.maxUnacknowledgedMs,
      clientSignal: delivery.revoked,
      handler: context.getHandler(),
    };
  }

  /** @throws {@link ContentNotComparableError} that says whose content it is, and what to do. */
  private fingerprintOf(content: RequestContent): Fingerprint {
    const { context, route } = this;
    try {
      return route.fingerprint(content, context);
    } catch (cause) {
      if (!(cause instanceof ContentNotComparableError)) throw cause;
      throw new ContentNotComparableError(
        `A message for ${route.operation} cannot be compared. ${cause.message} Leave that out by the option "fingerprint", { exclude: ['…'] }, or set it to false.`,
        { cause },
      );
    }
  }

  /** Settles the call, and keeps an event for as long as somebody else is at it, or the store is away. */
  private async settle(call: Call): Promise<MessageEnd> {
    const { delivery, route } = this;
    const { retryAfterMs, whenInProgress } = call.options;
    for (const since = monotonicNow(); ;) {
      const result = await this.calls.settle(call, ({ signal }) => this.runWithin(signal));
      const code = delivery.isEvent ? temporaryRejection(result) : undefined;
      if (code === undefined) return this.endOf(result);
      const isTooLong = monotonicNow() - since >= route.message.maxPauseMs;
      const isRequeued =
        isTooLong || (code === 'idempotency_in_progress' && whenInProgress === 'reject');
      const pauseMs = isRequeued ? Math.max(retryAfterMs, MIN_REQUEUE_DELAY_MS) : retryAfterMs;
      const isOurs = await pauseDelivery(delivery, pauseMs);
      if (!isOurs) return { kind: 'abandoned' };
      if (isRequeued) return delivery.isReturned ? { kind: 'requeued' } : this.endOf(result);
    }
  }

  /** Runs the handler to its end, and gives all that it emitted. */
  private async run(): Promise<unknown[]> {
    const { delivery } = this;
    const emissions = defer((): Observable<unknown> => this.next.handle());
    delivery.isRunning = true;
    let values: unknown[];
    try {
      values = await lastValueFrom(emissions.pipe(toArray()));
    } finally {
      delivery.isRunning = false;
    }
    if (delivery.isReturnedByHandler) throw new ReturnedByHandlerError();
    return values;
  }

  /**
   * Once the key is lost, nothing but the handler's own word may end its message: one that was given back would come again,
   * and run beside it. Whoever has acknowledged it does not need it any more.
   */
  private async runWithin(signal: AbortSignal): Promise<unknown[]> {
    const { delivery } = this;
    const acknowledgeIfRequested = () => {
      if (delivery.requestedAck === 'accept') delivery.acknowledge('accept');
    };
    const onLoss = () => {
      delivery.onRequestedAck(acknowledgeIfRequested);
      acknowledgeIfRequested();
    };
    if (delivery.isReturned) signal.addEventListener('abort', onLoss);
    try {
      return await this.run();
    } finally {
      signal.removeEventListener('abort', onLoss);
    }
  }

  private endOf(result: CallResult): MessageEnd {
    switch (result.kind) {
      case 'value':
        return {
          kind: 'emitted',
          values: result.value as readonly unknown[],
          isStored: true,
        };
      case 'failure':
        return { kind: 'failed', error: result.error, isFinal: result.isKept };
      case 'rejected': {
        // Another consumer gets it once this one has closed down.
        const isAbandoned =
          this.delivery.isReturned && hasCode(result.error, 'idempotency_shutting_down');
        return isAbandoned
          ? { kind: 'abandoned' }
          : { kind: 'failed', error: result.error, isFinal: false };
      }
    }
  }
}

/** The code of a refusal that time may cure. */
function temporaryRejection(
  result: CallResult,
): 'idempotency_in_progress' | 'idempotency_store_unavailable' | undefined {
  if (result.kind !== 'rejected') return undefined;
  const { error } = result;
  if (hasCode(error, 'idempotency_in_progress')) return 'idempotency_in_progress';
  return hasCode(error, 'idempotency_store_unavailable')
    ? 'idempotency_store_unavailable'
    : undefined;
}

/** Loads the package, which is there where messages are. */
export async function rpcFailures(): Promise<RejectionMapper> {
  try {
    const { RpcException } = (await import('@nestjs/microservices')) as {
      RpcException: ClientExceptionClass;
    };
    return new RejectionMapper(RpcException);
  } catch (error) {
    throw missingPeer(error, '@nestjs/microservices', 'A message handler needs');
  }
}

/** What becomes of a message whose handling failed; one that cannot be judged comes again, for that loses nothing. */
export function failureActionOf(
  error: unknown,
  context: ExecutionContext,
  onFailure: ResolvedMessageOptions['onFailure'],
): FailureAction {
  if (typeof onFailure !== 'function') return onFailure;
  try {
    const action: unknown = onFailure(error, context);
    ignoreResult('onFailure', action);
    return action === 'dead-letter' ? 'dead-letter' : 'requeue';
  } catch {
    return 'requeue';
  }
}

/** How the handling of one message ended. */
export type MessageEnd =
  | {
      readonly kind: 'emitted';
      readonly values: readonly unknown[];
      /** It would be answered by its record, and not handled again. */
      readonly isStored: boolean;
    }
  | {
      readonly kind: 'failed';
      readonly error: unknown;
      /** Repetitions are told the same: it is not worth trying again. */
      readonly isFinal: boolean;
    }
  /** It could not be handled now, and has waited long enough. */
  | { readonly kind: 'requeued' }
  /** Somebody else has it, or will have it: there is nothing to be told to anybody. */
  | { readonly kind: 'abandoned' };

/** The handler returned, and had told the broker by itself that it wants the message back, or put aside. */
export class ReturnedByHandlerError extends Error {
  override readonly name = 'ReturnedByHandlerError';
}
