import { Body, Controller, Get, Param, Post, UseGuards } from '@nestjs/common';
import { ApiBearerAuth, ApiCreatedResponse, ApiOkResponse } from '@nestjs/swagger';
import { Idempotent, IdempotencyContext } from 'nestjs-idempotency';
import { BearerTokenGuard } from '../auth/bearer-token.guard.js';
import { CurrentUser } from '../auth/current-user.decorator.js';
import type { User } from '../auth/user.js';
import { CreatePaymentDto } from './create-payment.dto.js';
import { CreateRefundDto } from './create-refund.dto.js';
import { PaymentsService } from './payments.service.js';
import { PaymentView, RefundView } from './views.js';

@Controller('payments')
@ApiBearerAuth()
@UseGuards(BearerTokenGuard)
export class PaymentsController {
  constructor(private readonly payments: PaymentsService) {}

  /** The provider moves the money, and a rollback cannot undo that: so no transaction is held open. */
  @Post()
  @Idempotent({ operation: 'payments.create', transaction: false })
  @ApiCreatedResponse({ type: PaymentView })
  create(
    @Body() order: CreatePaymentDto,
    @CurrentUser() user: User,
    @IdempotencyContext() context: IdempotencyContext,
  ): Promise<PaymentView> {
    return this.payments.create(order, user, context);
  }

  @Get(':id')
  @ApiOkResponse({ type: PaymentView })
  find(@Param('id') id: string, @CurrentUser() user: User): Promise<PaymentView> {
    return this.payments.find(id, user);
  }

  /** With STORE=postgres the module's default is `transaction: true`: refund and record commit together. */
  @Post(':id/refunds')
  @Idempotent({ operation: 'payments.refund' })
  @ApiCreatedResponse({ type: RefundView })
  refund(
    @Param('id') id: string,
    @Body() order: CreateRefundDto,
    @CurrentUser() user: User,
    @IdempotencyContext() context: IdempotencyContext,
  ): Promise<RefundView> {
    return this.payments.refund(id, order, user, context);
  }
}
