import { Processor, WorkerHost } from '@nestjs/bullmq';
import type { Job } from 'bullmq';
import { Idempotent, requireIdempotencyContext } from 'nestjs-idempotency';
import { delayJob } from 'nestjs-idempotency/bullmq';
import { Shop, type Order } from './shop.js';

@Processor('orders')
export class OrdersProcessor extends WorkerHost {
  constructor(private readonly shop: Shop) {
    super();
  }

  @Idempotent({
    operation: 'orders.place',
    key: ({ data }: Job<Order>) => data.id,
    scope: () => [], // The shop made the id, not a client.
    payload: ({ data }) => data,
    onRejected: delayJob,
  })
  async process({ data }: Job<Order>): Promise<{ placed: string }> {
    const { downstreamKey } = requireIdempotencyContext();
    return this.shop.place(data, { idempotencyKey: downstreamKey('shop/place') });
  }
}
