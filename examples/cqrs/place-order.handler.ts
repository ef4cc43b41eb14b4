import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { Idempotent } from 'nestjs-idempotency';
import { Orders, type PlacedOrder } from './orders.js';

export class PlaceOrder extends Command<PlacedOrder> {
  constructor(
    /** The same in every retry, from whichever entrance it comes. */
    readonly key: string,
    readonly customer: string,
    readonly items: readonly string[],
  ) {
    super();
  }
}

@CommandHandler(PlaceOrder)
export class PlaceOrderHandler implements ICommandHandler<PlaceOrder> {
  constructor(private readonly orders: Orders) {}

  @Idempotent({
    operation: 'orders.place',
    key: ({ key }: PlaceOrder) => key,
    scope: ({ customer }) => customer,
    payload: ({ items }) => items,
  })
  async execute({ customer, items }: PlaceOrder): Promise<PlacedOrder> {
    return this.orders.insert(customer, items);
  }
}
