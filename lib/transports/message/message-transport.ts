import type { CallHandler, ExecutionContext } from '@nestjs/common';
import { Observable, type Subscriber } from 'rxjs';
import type { Clock } from '../../core/util/clock.js';
import { inThisContext } from '../../core/util/this-context.js';
import { OperationRejectedError } from '../../core/errors/errors.js';
import type { CallTransport } from '../call/call-transport.js';
import type { RejectionMapper } from '../call/rejection-errors.js';
import { deliveryOf, pauseDelivery, type Delivery } from './deliveries/delivery.js';
import {
  ACCEPTED,
  failed,
  RETURNED,
  ReturnedByHandlerError,
  type Ack,
} from './deliveries/rabbitmq-delivery.js';
import { failureActionOf, MessageHandling, rpcFailures } from './message-handling.js';
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
    return new Observable(
      inThisContext((subscriber) => {
        const { operation, isEventHandler } = route;
        const delivery = deliveryOf(rpcSource(context), operation, isEventHandler);
        this.handle(context, next, route, delivery, subscriber).catch((error: unknown) => {
          // Not the message's fault (a package cannot be loaded, say).
          subscriber.error(error);
          delivery.rabbitMq?.acknowledge(RETURNED);
        });
      }),
    );
  }

  /** Replies to the client first, then acknowledges. */
  private async handle(
    context: ExecutionContext,
    next: CallHandler,
    route: MessageRoute,
    delivery: Delivery,
    subscriber: Subscriber<unknown>,
  ): Promise<void> {
    const { clock } = this.calls;
    const failures = await this.failures();
    const handling = new MessageHandling(
      this.calls,
      context,
      next,
      route,
      delivery,
      failures,
      () => subscriber.closed,
    );
    const end = await handling.end();
    const { isEvent, rabbitMq } = delivery;
    const { onFailure, redeliveryDelay: redeliveryDelayMs } = route.options.message;
    switch (end.kind) {
      case 'emitted':
        for (const value of end.values) subscriber.next(value);
        subscriber.complete();
        // Nest writes the reply one tick later.
        await nextLoopIteration(clock);
        // A stored outcome is acknowledged, even if code outside of the handler requests something else.
        if (end.isStored) rabbitMq?.acknowledge(ACCEPTED);
        else await acknowledgeAs(delivery, ACCEPTED, redeliveryDelayMs, clock);
        return;
      case 'requeued':
        rabbitMq?.acknowledge(RETURNED);
        subscriber.complete();
        return;
      case 'left':
      case 'abandoned':
        if (end.kind === 'left') rabbitMq?.leave();
        // A request stays open: its client gets the reply from the next consumer.
        if (isEvent) subscriber.complete();
        return;
      case 'failed': {
        const { error } = end;
        if (error instanceof ReturnedByHandlerError) subscriber.complete();
        else subscriber.error(isEvent ? error : failures.toClientError(error));
        if (rabbitMq === undefined) return;
        // Exception filters may request an ack first.
        await nextLoopIteration(clock);
        if (!isEvent) return acknowledgeAs(delivery, ACCEPTED, redeliveryDelayMs, clock);
        const action = end.isFinal
          ? 'dead-letter'
          : failureActionOf(
              error,
              context,
              onFailure,
              this.calls.observer(route.operation, 'message'),
            );
        const isRejected = error instanceof OperationRejectedError;
        const ack =
          isRejected && error.retryable && action === 'requeue' ? RETURNED : failed(action);
        return acknowledgeAs(delivery, ack, redeliveryDelayMs, clock, isRejected);
      }
    }
  }

  /** At the first message: Nest starts microservices before it initializes modules. */
  private failures(): Promise<RejectionMapper> {
    return (this.loading ??= rpcFailures());
  }
}

/** Acknowledges as the application requested, else with `ack`; requeues a redelivered message after `delayMs`. */
async function acknowledgeAs(
  delivery: Delivery,
  ack: Ack,
  delayMs: number,
  clock: Clock,
  isRejected = false,
): Promise<void> {
  const { rabbitMq } = delivery;
  if (rabbitMq === undefined) return;
  const requested = () => rabbitMq.requestedAck ?? ack;
  if (requested().action === 'requeue' && (rabbitMq.isRedelivered || isRejected)) {
    const isHeld = await pauseDelivery(delivery, delayMs, clock);
    if (!isHeld) return;
  }
  rabbitMq.acknowledge(requested());
}

/** Resolves in the next iteration of the event loop. */
function nextLoopIteration(clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    clock.setImmediate(resolve, undefined);
  });
}
