import type { CallHandler, ExecutionContext } from '@nestjs/common';
import { Observable, type Subscriber } from 'rxjs';
import { OperationRejectedError } from '../../core/util/errors.js';
import type { CallTransport } from '../call/call-transport.js';
import type { RejectionMapper } from '../call/rejection-errors.js';
import type { Delivery, AckAction } from './deliveries/delivery.js';
import { deliveryOf } from './deliveries/unacknowledged-delivery.js';
import { pauseDelivery } from './pause-delivery.js';
import {
  ReturnedByHandlerError,
  MessageHandling,
  rpcFailures,
  failureActionOf,
  type MessageEnd,
} from './message-handling.js';
import type { MessageRoute } from './message-route.js';
import { rpcSource } from './source/rpc-context.js';

/** Protects message handlers of Nest's microservices, and acknowledges messages by their outcomes. */
export class MessageTransport {
  private loading: Promise<RejectionMapper> | undefined;

  constructor(private readonly calls: CallTransport) {}

  /** Runs the handler, or emits its stored values instead. */
  intercept(
    context: ExecutionContext,
    next: CallHandler,
    route: MessageRoute,
  ): Observable<unknown> {
    return new Observable((subscriber) => {
      const delivery = deliveryOf(rpcSource(context), route.isEventHandler);
      delivery.isAbandoned = () => subscriber.closed;
      this.handle(context, next, route, delivery, subscriber).catch((error: unknown) => {
        // Not the message's fault (a package cannot be loaded, say): it is requeued.
        subscriber.error(error);
        delivery.acknowledge('requeue');
      });
    });
  }

  /** Replies to the client first, then acknowledges. */
  private async handle(
    context: ExecutionContext,
    next: CallHandler,
    route: MessageRoute,
    delivery: Delivery,
    subscriber: Subscriber<unknown>,
  ): Promise<void> {
    const failures = await this.failures();
    const handling = new MessageHandling(this.calls, context, next, route, delivery, failures);
    const end = await handling.end();
    switch (end.kind) {
      case 'emitted':
        for (const value of end.values) subscriber.next(value);
        subscriber.complete();
        // Nest writes the reply one tick later.
        await nextLoopIteration();
        // A stored outcome is not requeued, even if code outside of the handler requests it.
        if (end.isStored && delivery.requestedAck === 'requeue') delivery.acknowledge('accept');
        else await acknowledgeAs(delivery, 'accept', route.message.redeliveryDelayMs);
        return;
      case 'requeued':
        delivery.acknowledge('requeue');
        subscriber.complete();
        return;
      case 'abandoned':
        // A request stays open: its client gets the reply from the next consumer.
        if (delivery.isEvent) subscriber.complete();
        return;
      case 'failed':
        if (end.error instanceof ReturnedByHandlerError) subscriber.complete();
        else subscriber.error(delivery.isEvent ? end.error : failures.toClientError(end.error));
        await acknowledgeFailure(context, route, delivery, end);
    }
  }

  /** At the first message: Nest starts microservices before it initializes modules. */
  private failures(): Promise<RejectionMapper> {
    return (this.loading ??= rpcFailures());
  }
}

async function acknowledgeFailure(
  context: ExecutionContext,
  { message }: MessageRoute,
  delivery: Delivery,
  { error, isFinal }: Extract<MessageEnd, { kind: 'failed' }>,
): Promise<void> {
  if (!delivery.isReturned) return;
  // Exception filters may request an ack first.
  await nextLoopIteration();
  const delayMs = message.redeliveryDelayMs;
  if (!delivery.isEvent) {
    await acknowledgeAs(delivery, 'accept', delayMs);
    return;
  }
  const action = isFinal ? 'dead-letter' : failureActionOf(error, context, message.onFailure);
  await acknowledgeAs(delivery, action, delayMs, error instanceof OperationRejectedError);
}

/** Acknowledges as the application requested, else with `action`; requeues a redelivered message after `delayMs`. */
async function acknowledgeAs(
  delivery: Delivery,
  action: AckAction,
  delayMs: number,
  isHopeless = false,
): Promise<void> {
  const isAgain = (delivery.requestedAck ?? action) === 'requeue';
  if (isAgain && (delivery.isRedelivered || isHopeless)) {
    const isOurs = await pauseDelivery(delivery, delayMs);
    if (!isOurs) return;
  }
  delivery.acknowledge(delivery.requestedAck ?? action);
}

/** Resolves in the next iteration of the event loop. */
function nextLoopIteration(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
