import {
  Controller,
  UseInterceptors,
  type ArgumentsHost,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import { Ctx, EventPattern, Payload, type RmqContext } from '@nestjs/microservices';
import { Idempotent, type IdempotencyOptions } from 'nestjs-idempotency';
import type { TestQueue } from './test-queue.js';

/** The part of amqplib's channel that an application talks to. */
export interface Channel {
  ack(message: object, allUpTo?: boolean): void;
  ackAll(): void;
  nack(message: object, allUpTo?: boolean, requeue?: boolean): void;
  reject(message: object, requeue?: boolean): void;
  checkQueue(queue: string): Promise<{ messageCount: number }>;
}

/** What a handler, or whoever stands around it, gets of one delivery. */
export interface Delivered {
  readonly id: number;
  /** Whose order it is, where it says so. */
  readonly tenant: string | undefined;
  readonly channel: Channel;
  readonly message: { readonly fields: { readonly redelivered: boolean } };
}

interface Order {
  readonly id: number;
  readonly tenant?: string;
}

/** Publishes an order under a message id that is made of its own: the same order is the same message. */
export function emitOrder(queue: TestQueue, id: number): Promise<void> {
  return queue.emit('order.placed', { id }, { messageId: `m${id}` });
}

/** Of a RabbitMQ message, wherever Nest hands out a context. */
export function deliveredIn(context: ArgumentsHost): Delivered {
  const rpc = context.switchToRpc();
  return delivered(rpc.getContext<RmqContext>(), rpc.getData<Order>());
}

/** A controller that handles `order.placed` by `handle`; `inner` stands between it and the layer. */
export function orders(
  handle: (delivered: Delivered) => unknown,
  options: IdempotencyOptions = {},
  ...inner: NestInterceptor[]
): Type {
  @Controller()
  class Orders {
    @UseInterceptors(...inner)
    @Idempotent({ consumer: 'billing', redeliveryDelayMs: 20, ...options })
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
