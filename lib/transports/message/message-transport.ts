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

/** Protects the message handlers of Nest's microservices: value in, value out, and the broker told what became of it. */
export class MessageTransport {
  private loading: Promise<RejectionMapper> | undefined;

  constructor(private readonly calls: CallTransport) {}

  /** Runs the handler, or gives in its place what it emitted the first time. */
  intercept(
    context: ExecutionContext,
    next: CallHandler,
    route: MessageRoute,
  ): Observable<unknown> {
    return new Observable((subscriber) => {
      const delivery = deliveryOf(rpcSource(context), route.isEventHandler);
      delivery.isAbandoned = () => subscriber.closed;
      this.handle(context, next, route, delivery, subscriber).catch((error: unknown) => {
        // Nothing of the message's own: a package that cannot be loaded, say. It comes again.
        subscriber.error(error);
        delivery.acknowledge('requeue');
      });
    });
  }

  /** Tells first whoever waits for an answer, then the broker. */
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
        // After the answer has been written, which Nest does a tick later.
        await nextLoopIteration();
        // What is stored has no reason to come again, whatever somebody outside says of it.
        if (end.isStored && delivery.requestedAck === 'requeue') delivery.acknowledge('accept');
        else await acknowledgeAs(delivery, 'accept', route.message.redeliveryDelayMs);
        return;
      case 'requeued':
        delivery.acknowledge('requeue');
        subscriber.complete();
        return;
      case 'abandoned':
        // An answer would be taken for the handler's: whoever asked gets it from the next consumer.
        if (delivery.isEvent) subscriber.complete();
        return;
      case 'failed':
        if (end.error instanceof ReturnedByHandlerError) subscriber.complete();
        else subscriber.error(delivery.isEvent ? end.error : failures.toClientError(end.error));
        await acknowledgeFailure(context, route, delivery, end);
    }
  }

  /** When the first message comes: Nest starts microservices before modules are initialized. */
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
  // Exception filters have their say first.
  await nextLoopIteration();
  const delayMs = message.redeliveryDelayMs;
  if (!delivery.isEvent) {
    await acknowledgeAs(delivery, 'accept', delayMs);
    return;
  }
  const action = isFinal ? 'dead-letter' : failureActionOf(error, context, message.onFailure);
  await acknowledgeAs(delivery, action, delayMs, error instanceof OperationRejectedError);
}

/** Tells the broker what the application has asked for, else `verdict`; what has come back before goes back later. */
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

/** Resolves in the next turn of the event loop. */
function nextLoopIteration(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
