import { Module } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { InvoicesController } from '../invoices/invoices.controller.js';
import { LedgerController } from '../ledger/ledger.controller.js';
import { PaymentProvider } from '../provider/payment-provider.js';
import { ProviderErrorFilter } from '../provider/provider-error.filter.js';
import { PaymentsController } from './payments.controller.js';
import { PaymentsService } from './payments.service.js';

@Module({
  controllers: [PaymentsController, InvoicesController, LedgerController],
  providers: [
    PaymentsService,
    PaymentProvider,
    { provide: APP_FILTER, useClass: ProviderErrorFilter },
  ],
  exports: [PaymentProvider],
})
export class PaymentsModule {}
