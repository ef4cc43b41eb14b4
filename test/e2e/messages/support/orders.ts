import {
  Catch,
  Controller,
  UseInterceptors,
  type ArgumentsHost,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import { Ctx, EventPattern, Payload, type RmqContext } from '@nestjs/microservices';
import { Idempotent, type IdempotencyOptions } from 'nestjs-idempotency';
import { EMPTY, type Observable } from 'rxjs';
import type { TestQueue } from './test-queue.js';

/** The part of amqplib's channel that applications use. */
export interface Channel {
  ack(message: object, allUpTo?: boolean): void;
  ackAll(): void;
  nack(message: object, allUpTo?: boolean, requeue?: boolean): void;
  reject(message: object, requeue?: boolean): void;
  checkQueue(queue: string): Promise<{ messageCount: number }>;
}

/** What a handler, an interceptor, a guard or a filter gets of one delivery. */
export interface Delivered {
  readonly id: number;
  /** The tenant of the order, if it has one. */
  readonly tenant: string | undefined;
  readonly channel: Channel;
  readonly message: { readonly fields: { readonly redelivered: boolean } };
}

interface Order {
  readonly id: number;
  readonly tenant?: string;
}

/** Publishes an order with a message id that is derived from its own id: the same order is the same message. */
export function emitOrder(queue: TestQueue, id: number): Promise<void> {
  return queue.emit('order.placed', { id }, { messageId: `m${id}` });
}

/** The delivery of a RabbitMQ message, from any context of Nest. */
export function deliveredIn(context: ArgumentsHost): Delivered {
  const rpc = context.switchToRpc();
  return delivered(rpc.getContext<RmqContext>(), rpc.getData<Order>());
}

/** A controller that handles `order.placed` with `handle`; `inner` runs inside @Idempotent(). */
export function orders(
  handle: (delivered: Delivered) => unknown,
  options: IdempotencyOptions = {},
  ...inner: NestInterceptor[]
): Type {
  @Controller()
  class Orders {
    @UseInterceptors(...inner)
    @Idempotent({
      ...options,
      message: { consumer: 'billing', redeliveryDelay: 20, ...options.message },
    })
    @EventPattern(['order.placed'])
    place(@Payload() order: Order, @Ctx() context: RmqContext): unknown {
      return handle(delivered(context, order));
    }
  }
  return Orders;
}

function delivered(context: RmqContext, { id, tenant }: Order): Delivered {
  const channel = context.getChannelRef() as Channel;
  return { id, tenant, channel, message: context.getMessage() as Delivered['message'] };
}

/** An exception filter that keeps what it receives. */
@Catch()
export class Noting {
  readonly errors: unknown[] = [];

  catch(error: unknown): Observable<never> {
    this.errors.push(error);
    return EMPTY;
  }
}
