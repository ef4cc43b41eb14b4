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

/** An application's global pipes do not apply to its connected microservices. */
const VALID_ORDER = new ValidationPipe({
  whitelist: true,
  forbidNonWhitelisted: true,
  transform: true,
});

/** Charges each order once, however often the broker delivers it. */
@Controller()
@UseInterceptors(DeliveryLog)
export class OrdersController {
  private readonly logger = new Logger('Orders');

  constructor(private readonly provider: PaymentProvider) {}

  /** An invalid order is dead-lettered at once; any other failure is requeued. */
  // A list, since for a single pattern Nest's types do not allow a second parameter of another type.
  @EventPattern([ORDER_PLACED])
  @Idempotent({
    operation: 'orders.charge',
    message: {
      consumer: 'orders',
      onFailure: (error) => (error instanceof BadRequestException ? 'dead-letter' : 'requeue'),
    },
    transaction: false,
  })
  async charge(
    @Payload(VALID_ORDER) { id, customer, amount, currency }: PlacedOrderDto,
    @IdempotencyContext() context: IdempotencyContext,
  ): Promise<void> {
    const { fencingToken, signal } = context;
    // Every attempt at this order sends the same key to the provider.
    const reference = context.downstreamKey('provider/charge');
    const charge = { reference, userId: customer, amount, currency, description: id, fencingToken };
    try {
      await this.provider.chargeOnce(charge, signal);
    } catch (error) {
      if (!(error instanceof ProviderError && error.code === 'card_declined')) throw error;
      // An outcome, not a failure: the next delivery would be declined, too.
      this.logger.log(`the card of ${customer} was declined`);
    }
  }
}
