import {
  Controller,
  UseInterceptors,
  type ArgumentsHost,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import { Ctx, EventPattern, Payload, type RmqContext } from '@nestjs/microservices';
import { Idempotent, type IdempotencyOptions } from 'nestjs-idempotency';

/** The part of amqplib's channel that an application talks to. */
export interface Channel {
  ack(message: object): void;
  nack(message: object, allUpTo?: boolean, requeue?: boolean): void;
}

/** What a handler, or whoever stands around it, gets of one delivery. */
export interface Delivered {
  readonly id: number;
  readonly channel: Channel;
  readonly message: { readonly fields: { readonly redelivered: boolean } };
}

/** Of a RabbitMQ message, wherever Nest hands out a context. */
export function deliveredIn(context: ArgumentsHost): Delivered {
  const rpc = context.switchToRpc();
  return delivered(rpc.getContext<RmqContext>(), rpc.getData<{ id: number }>().id);
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
    place(@Payload() { id }: { id: number }, @Ctx() context: RmqContext): unknown {
      return handle(delivered(context, id));
    }
  }
  return Orders;
}

function delivered(context: RmqContext, id: number): Delivered {
  const channel = context.getChannelRef() as Channel;
  return { id, channel, message: context.getMessage() as Delivered['message'] };
}
