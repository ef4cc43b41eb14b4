import {
  BadRequestException,
  Controller,
  Logger,
  UseInterceptors,
  ValidationPipe,
} from '@nestjs/common';
import { EventPattern, Payload } from '@nestjs/microservices';
import { IdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { PaymentProvider } from '../provider/payment-provider.js';
import { ProviderError } from '../provider/provider-error.js';
import { DeliveryLog } from './delivery-log.js';
import { ORDER_PLACED } from './orders-queue.js';
import { PlacedOrderDto } from './placed-order.dto.js';

/** An application's own pipes are not those of the microservices that are connected to it. */
const VALID_ORDER = new ValidationPipe({
  whitelist: true,
  forbidNonWhitelisted: true,
  transform: true,
});

/** Charges for orders that the broker tells of, as often as it may tell of one. */
@Controller()
@UseInterceptors(DeliveryLog)
export class OrdersController {
  private readonly logger = new Logger('Orders');

  constructor(private readonly provider: PaymentProvider) {}

  /** What is no order will never be one, and is put aside at once; whatever else fails comes again. */
  // As a list: to handlers of a single name Nest's types allow no second parameter of a type of its own.
  @EventPattern([ORDER_PLACED])
  @Idempotent({
    operation: 'orders.charge',
    consumer: 'orders',
    onFailure: (error) => (error instanceof BadRequestException ? 'dead-letter' : 'requeue'),
    transactional: false,
  })
  async charge(
    @Payload(VALID_ORDER) { id, customer, amount, currency }: PlacedOrderDto,
    @IdempotencyContext() context: IdempotencyContext,
  ): Promise<void> {
    const { fencingToken, signal } = context;
    // Every attempt at this order gives the provider the same key.
    const reference = context.downstreamKey('provider/charge');
    const charge = { reference, userId: customer, amount, currency, description: id, fencingToken };
    try {
      await this.provider.chargeOnce(charge, signal);
    } catch (error) {
      if (!(error instanceof ProviderError && error.code === 'card_declined')) throw error;
      // An answer, and no failure: the next delivery would get it, too.
      this.logger.log(`the card of ${customer} was declined`);
    }
  }
}
