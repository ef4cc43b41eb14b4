import type { CallHandler, ExecutionContext } from '@nestjs/common';
import { defer, lastValueFrom, toArray, type Observable } from 'rxjs';
import { ContentNotComparableError } from '../../core/record/canonical-json.js';
import type { Fingerprint } from '../../core/record/record.js';
import { hasCode } from '../../core/errors/errors.js';
import { missingPeer } from '../../core/util/missing-peer.js';
import { wrongResult, type OptionObserver } from '../../core/options/option-checks.js';
import { requirePeer } from '../../core/util/peers.js';
import type { Bypass, Call, CallResult } from '../call/call.js';
import type { CallTransport } from '../call/call-transport.js';
import { emissionsFormat, nothingFormat } from '../call/outcome-format.js';
import { RejectionMapper, type ClientExceptionClass } from '../call/rejection-errors.js';
import { isEnabled } from '../common/ask-option.js';
import { payloadContent } from '../common/payload-fingerprint.js';
import type { RequestContent } from '../common/request-content.js';
import { pauseDelivery, type Delivery } from './deliveries/delivery.js';
import { messageKey, messageScope, misnamedIn } from './message-request.js';
import type { FailureAction, ResolvedMessageOptions } from './message-options.js';
import type { MessageRoute } from './message-route.js';
import { patternOf } from './source/rpc-context.js';

/** With `key.uniqueFor: 'principal'`, a key is unique over all operations of its consumer. */
const ALL_OF_A_CONSUMER = 'nestjs-idempotency/messages';

/** Before jitter: the broker redelivers a requeued message at once, and five times a second are enough. */
const MIN_REQUEUE_DELAY_MS = 400;

/** The longest wait of a Kafka consumer without a heartbeat: its group removes it after 30 s, by default. */
const MAX_WAIT_WITHOUT_HEARTBEAT_MS = 3_000;

/** The handling of one message, until its end is known. */
export class MessageHandling {
  constructor(
    private readonly calls: CallTransport,
    private readonly context: ExecutionContext,
    private readonly next: CallHandler,
    private readonly route: MessageRoute,
    private readonly delivery: Delivery,
    private readonly failures: RejectionMapper,
    /** Whether the result has no subscriber any more. */
    private readonly isAbandoned: () => boolean,
  ) {}

  /** Never rejects. */
  async end(): Promise<MessageEnd> {
    const { context, route } = this;
    try {
      const { operation, options } = route;
      const call = isEnabled(context, operation, options)
        ? await this.calls.prepared('message', this.preparedCall(), misnamedIn, context, route)
        : 'disabled';
      if (typeof call === 'string') {
        this.calls.reportUnprotected(operation, 'message', call);
        return { kind: 'emitted', values: await this.run(), isStored: false };
      }
      return await this.settle(call);
    } catch (error) {
      return { kind: 'failed', error, isFinal: false };
    }
  }

  /** @returns `'no_key'` without a key, if none is required. */
  private async preparedCall(): Promise<Call | Bypass> {
    const { context, route, delivery } = this;
    const key = messageKey(context, route);
    if (key === undefined) return 'no_key';
    const { operation, options } = route;
    const { keep, codec } = options.outcome;
    const { isEvent, heartbeat, rabbitMq } = delivery;
    const content = payloadContent(patternOf(context), context.switchToRpc().getData());
    return {
      operation,
      transport: 'message',
      keyOperation: options.key.uniqueFor === 'operation' ? operation : ALL_OF_A_CONSUMER,
      key,
      scope: await messageScope(context, route),
      fingerprint: this.fingerprintOf(content),
      // A message that its handler requeued or dead-lettered has no outcome, whatever the policy.
      keep: (summary) => rabbitMq?.isReturnedByHandler !== true && keep(summary),
      // No client gets what an event's handler returned.
      format: isEvent ? nothingFormat(codec) : emissionsFormat(codec, this.failures),
      options,
      waitAtMostMs: heartbeat && MAX_WAIT_WITHOUT_HEARTBEAT_MS,
      clientSignal: rabbitMq?.revoked,
      handler: context.getHandler(),
    };
  }

  /** @throws {@link ContentNotComparableError} with the operation and a remedy. */
  private fingerprintOf(content: RequestContent): Fingerprint {
    const { context, route } = this;
    try {
      return route.fingerprint(content, context);
    } catch (cause) {
      if (!(cause instanceof ContentNotComparableError)) throw cause;
      throw new ContentNotComparableError(
        `A message for ${route.operation} cannot be compared. ${cause.message} Exclude that with the option "fingerprint", { exclude: ['…'] }, or set the option to false.`,
        { cause },
      );
    }
  }

  /** Settles the call. Pauses an event while another consumer handles it, or the store is unavailable. */
  private async settle(call: Call): Promise<MessageEnd> {
    const { delivery, route } = this;
    const { clock } = this.calls;
    const { retryAfter: retryAfterMs, mode } = call.options.duplicates;
    const { maxPause: maxPauseMs } = route.options.message;
    for (const since = clock.now(); ;) {
      const result = await this.calls.settle(call, ({ signal }) => this.run(signal));
      const code = delivery.isEvent ? temporaryRejection(result) : undefined;
      if (code === undefined) return this.endOf(result);
      const isTooLong = clock.now() - since >= maxPauseMs;
      const isRequeued = isTooLong || (code === 'idempotency_in_progress' && mode === 'reject');
      const pauseMs = isRequeued ? Math.max(retryAfterMs, MIN_REQUEUE_DELAY_MS) : retryAfterMs;
      const isHeld = await pauseDelivery(delivery, pauseMs, clock);
      if (!isHeld) return { kind: 'abandoned' };
      if (isRequeued) return delivery.rabbitMq ? { kind: 'requeued' } : this.endOf(result);
    }
  }

  private run(keyLost?: AbortSignal): Promise<unknown[]> {
    const { rabbitMq } = this.delivery;
    const values = () =>
      lastValueFrom(defer((): Observable<unknown> => this.next.handle()).pipe(toArray()));
    return rabbitMq === undefined ? values() : rabbitMq.run(values, this.isAbandoned, keyLost);
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
        const isLeft = this.delivery.rabbitMq && hasCode(result.error, 'idempotency_shutting_down');
        return isLeft ? { kind: 'left' } : { kind: 'failed', error: result.error, isFinal: false };
      }
    }
  }
}

/** The rejections that may pass while the message is held. */
const TEMPORARY = [
  'idempotency_in_progress',
  'idempotency_too_many_attempts',
  'idempotency_store_unavailable',
  'idempotency_outcome_unavailable',
] as const;

function temporaryRejection(result: CallResult): (typeof TEMPORARY)[number] | undefined {
  if (result.kind !== 'rejected') return undefined;
  const { error } = result;
  return TEMPORARY.find((code) => hasCode(error, code));
}

/** Loads the optional package, which every application with messages has. */
export async function rpcFailures(): Promise<RejectionMapper> {
  try {
    const { RpcException } = (requirePeer('@nestjs/microservices') ??
      (await import('@nestjs/microservices'))) as {
      RpcException: ClientExceptionClass;
    };
    return new RejectionMapper(RpcException);
  } catch (error) {
    throw missingPeer(error, '@nestjs/microservices', 'A message handler needs');
  }
}

/** How a message whose handling failed is acknowledged. If `onFailure` fails, it is requeued: that loses nothing. */
export function failureActionOf(
  error: unknown,
  context: ExecutionContext,
  onFailure: ResolvedMessageOptions['onFailure'],
  observer: OptionObserver,
): FailureAction {
  if (typeof onFailure !== 'function') return onFailure;
  try {
    const action: unknown = onFailure(error, context);
    if (action === 'dead-letter' || action === 'requeue') return action;
    throw wrongResult('message.onFailure', "'requeue' or 'dead-letter'", action);
  } catch (failure) {
    observer.optionFailed('message.onFailure', failure);
    return 'requeue';
  }
}

export type MessageEnd =
  | {
      readonly kind: 'emitted';
      readonly values: readonly unknown[];
      /** A redelivery would be replayed. */
      readonly isStored: boolean;
    }
  | {
      readonly kind: 'failed';
      readonly error: unknown;
      /** A redelivery would get the same error. */
      readonly isFinal: boolean;
    }
  /** It cannot be handled yet, and has waited long enough. */
  | { readonly kind: 'requeued' }
  /** This process shuts down: another consumer gets the message, and replies. */
  | { readonly kind: 'left' }
  /** Another consumer has the message or will get it: no reply, no ack. */
  | { readonly kind: 'abandoned' };
