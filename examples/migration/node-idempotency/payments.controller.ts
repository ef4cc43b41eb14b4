import { Body, Controller, Param, Post, type ExecutionContext } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import { Ledger, type Payment } from '../ledger.js';
import { nodeIdempotencyRecord } from './legacy-node-idempotency.js';

/** The caller, and the parameter that was part of the old key. */
function userAndOrder(context: ExecutionContext) {
  const { user, params } = context
    .switchToHttp()
    .getRequest<{ user: { id: string }; params: { order: string } }>();
  return [user.id, params.order];
}

@Controller('payments')
export class PaymentsController {
  constructor(private readonly ledger: Ledger) {}

  @Post()
  @Idempotent({
    lease: { onTakeover: nodeIdempotencyRecord('POST', '/payments'), recoverOn: 'always' },
  })
  pay(@Body() payment: Payment) {
    return this.ledger.charge(payment);
  }

  @Post(':order/refunds')
  @Idempotent({
    caller: { scope: userAndOrder },
    lease: {
      onTakeover: nodeIdempotencyRecord(
        'POST',
        ({ scope: [, order] }) => `/payments/${order}/refunds`,
      ),
      recoverOn: 'always',
    },
  })
  refund(@Param('order') order: string) {
    return this.ledger.charge({ order, amount: -1 });
  }
}
