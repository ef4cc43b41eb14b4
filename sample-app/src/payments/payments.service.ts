import { Injectable, NotFoundException } from '@nestjs/common';
import type { IdempotencyContext } from 'nestjs-idempotency';
import type { User } from '../auth/user.js';
import type { Charge } from '../ledger/ledger.js';
import { PaymentProvider } from '../provider/payment-provider.js';
import type { CreatePaymentDto } from './create-payment.dto.js';
import type { CreateRefundDto } from './create-refund.dto.js';
import { paymentView, type PaymentView, refundView, type RefundView } from './views.js';

@Injectable()
export class PaymentsService {
  constructor(private readonly provider: PaymentProvider) {}

  async create(
    { amount, currency, description }: CreatePaymentDto,
    user: User,
    context: IdempotencyContext,
  ): Promise<PaymentView> {
    const { attempt, fencingToken, signal } = context;
    const reference = context.downstreamKey('provider/charge');
    // An earlier attempt crashed, hung or failed: it may have charged the card.
    const earlier = attempt > 1 ? await this.provider.findCharge(reference) : undefined;
    const order = { reference, userId: user.id, amount, currency, description, fencingToken };
    const charge = earlier ?? (await this.provider.charge(order, signal));
    return paymentView(charge, await this.provider.refunded(charge.id));
  }

  async find(id: string, user: User): Promise<PaymentView> {
    const charge = await this.#chargeOf(user, id);
    return paymentView(charge, await this.provider.refunded(id));
  }

  async refund(
    chargeId: string,
    { amount }: CreateRefundDto,
    user: User,
    context: IdempotencyContext,
  ): Promise<RefundView> {
    const { attempt, fencingToken, signal } = context;
    const reference = context.downstreamKey('provider/refund');
    const earlier = attempt > 1 ? await this.provider.findRefund(reference) : undefined;
    await this.#chargeOf(user, chargeId);
    const order = { reference, userId: user.id, chargeId, amount, fencingToken };
    return refundView(earlier ?? (await this.provider.refund(order, signal)));
  }

  async #chargeOf(user: User, id: string): Promise<Charge> {
    const charge = await this.provider.getCharge(id);
    if (charge?.userId !== user.id) throw new NotFoundException('Payment not found');
    return charge;
  }
}
