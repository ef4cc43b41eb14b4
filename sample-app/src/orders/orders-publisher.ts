import { ClientProxyFactory, RmqRecordBuilder, Transport } from '@nestjs/microservices';
import { lastValueFrom } from 'rxjs';
import { ORDER_PLACED, ordersTransport, type OrdersQueue } from './orders-queue.js';
import type { PlacedOrderDto } from './placed-order.dto.js';

/** The shop's side: tells of orders, sooner twice than not at all. */
export class OrdersPublisher {
  readonly #client;

  constructor(orders: OrdersQueue) {
    // Of the answers that Nest's client listens for, which RabbitMQ wants nothing to be told of.
    const options = { ...ordersTransport(orders).options, noAck: true };
    this.#client = ClientProxyFactory.create({ transport: Transport.RMQ, options });
  }

  /** Resolves when the broker has it. The message's id is what tells a repetition from another order. */
  async publish(order: PlacedOrderDto): Promise<void> {
    const message = new RmqRecordBuilder(order).setOptions({ messageId: order.id }).build();
    await lastValueFrom(this.#client.emit(ORDER_PLACED, message), { defaultValue: undefined });
  }

  async close(): Promise<void> {
    await this.#client.close();
  }
}
