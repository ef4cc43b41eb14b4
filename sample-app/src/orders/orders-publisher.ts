import { ClientProxyFactory, RmqRecordBuilder, Transport } from '@nestjs/microservices';
import { lastValueFrom } from 'rxjs';
import { ORDER_PLACED, ordersTransport, type OrdersQueue } from './orders-queue.js';
import type { PlacedOrderDto } from './placed-order.dto.js';

/** The shop's side: publishes orders at least once. */
export class OrdersPublisher {
  readonly #client;

  constructor(orders: OrdersQueue) {
    // For the reply queue of Nest's client: RabbitMQ requires noAck there.
    const options = { ...ordersTransport(orders).options, noAck: true };
    this.#client = ClientProxyFactory.create({ transport: Transport.RMQ, options });
  }

  /** Resolves when the broker has confirmed it. The message's id identifies duplicates of an order. */
  async publish(order: PlacedOrderDto): Promise<void> {
    const message = new RmqRecordBuilder(order).setOptions({ messageId: order.id }).build();
    await lastValueFrom(this.#client.emit(ORDER_PLACED, message), { defaultValue: undefined });
  }

  async close(): Promise<void> {
    await this.#client.close();
  }
}
