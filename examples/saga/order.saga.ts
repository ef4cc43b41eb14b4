import { Injectable } from '@nestjs/common';
import { IdempotencyService } from 'nestjs-idempotency';
import { Bank, Carrier, Stock, type Call, type Order } from './services.js';

/** Reserves, charges and ships; or compensates what was done. Call it again until it returns. */
@Injectable()
export class OrderSaga {
  constructor(
    private readonly idempotency: IdempotencyService,
    private readonly stock: Stock,
    private readonly bank: Bank,
    private readonly carrier: Carrier,
  ) {}

  async run(order: Order): Promise<'placed' | 'cancelled'> {
    await this.step('reserve', order, (call) => this.stock.reserve(order, call));

    const charge = await this.step('charge', order, (call) => this.bank.charge(order, call));
    if (!charge.accepted) {
      await this.step('release', order, (call) => this.stock.release(order, call));
      return 'cancelled';
    }

    const shipment = await this.step('ship', order, (call) => this.carrier.ship(order, call));
    if (!shipment.accepted) {
      await this.step('refund', order, (call) => this.bank.refund(order, call));
      await this.step('release', order, (call) => this.stock.release(order, call));
      return 'cancelled';
    }
    return 'placed';
  }

  /** Runs a step once, and returns its stored value to every later run of the saga. */
  private step<Value>(
    name: string,
    order: Order,
    act: (call: Call) => Promise<Value>,
  ): Promise<Value> {
    return this.idempotency.run(
      {
        operation: `orders.${name}`,
        key: order.id,
        scope: 'order-saga',
        payload: order,
        // The next step begins only after this one's value is stored.
        storeErrors: { whenNotSaved: 'error' },
        // Two runs of one saga at the same time take the same way.
        duplicates: { mode: 'wait', timeout: '1m' },
        // Longer than a saga can take, with all its retries.
        outcome: { retention: '30d' },
      },
      ({ downstreamKey, signal }) => act({ idempotencyKey: downstreamKey(name), signal }),
    );
  }
}
