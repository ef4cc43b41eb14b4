import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import type { Charge, Refund } from '../ledger/ledger.js';

/** A payment as the API returns it: the ledger's data without its internal fields. */
export class PaymentView {
  @ApiProperty()
  readonly id!: string;

  @ApiProperty({ type: 'integer' })
  readonly amount!: number;

  @ApiProperty()
  readonly currency!: string;

  @ApiPropertyOptional({ type: String })
  readonly description: string | undefined;

  @ApiProperty({ type: 'integer' })
  readonly refunded!: number;

  @ApiProperty({ format: 'date-time' })
  readonly createdAt!: string;
}

export class RefundView {
  @ApiProperty()
  readonly id!: string;

  @ApiProperty()
  readonly paymentId!: string;

  @ApiProperty({ type: 'integer' })
  readonly amount!: number;

  @ApiProperty({ format: 'date-time' })
  readonly createdAt!: string;
}

export function paymentView(charge: Charge, refunded: number): PaymentView {
  const { id, amount, currency, description, at } = charge;
  return { id, amount, currency, description, refunded, createdAt: at };
}

export function refundView({ id, chargeId, amount, at }: Refund): RefundView {
  return { id, paymentId: chargeId, amount, createdAt: at };
}
