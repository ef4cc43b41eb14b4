import { Module } from '@nestjs/common';
import { PaymentsModule } from '../payments/payments.module.js';
import { OrdersController } from './orders.controller.js';

/** The handlers; {@link consumeOrders} connects them with a broker. */
@Module({
  imports: [PaymentsModule],
  controllers: [OrdersController],
})
export class OrdersModule {}
