import { Module } from '@nestjs/common';
import { PaymentsModule } from '../payments/payments.module.js';
import { OrdersController } from './orders.controller.js';

/** Handlers without a broker, until {@link consumeOrders} connects them with one. */
@Module({
  imports: [PaymentsModule],
  controllers: [OrdersController],
})
export class OrdersModule {}
