import { EventsHandler, type IEventHandler } from '@nestjs/cqrs';
import { Idempotent } from 'nestjs-idempotency';
import { Shipping } from './shipping.js';

export class OrderPlaced {
  constructor(
    readonly eventId: string,
    readonly orderId: string,
  ) {}
}

@EventsHandler(OrderPlaced)
export class ShippingHandler implements IEventHandler<OrderPlaced> {
  constructor(private readonly shipping: Shipping) {}

  @Idempotent({
    operation: 'shipping.prepare',
    key: ({ eventId }: OrderPlaced) => eventId,
    scope: () => [], // No client chooses the id of an event.
  })
  async handle({ orderId }: OrderPlaced): Promise<void> {
    await this.shipping.prepare(orderId);
  }
}
