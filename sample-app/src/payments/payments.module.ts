import { Module } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';
import { APP_FILTER } from '@nestjs/core';
import { createLedger } from '../ledger/create-ledger.js';
import { LedgerController } from '../ledger/ledger.controller.js';
import { Ledger } from '../ledger/ledger.js';
import { PaymentProvider } from '../provider/payment-provider.js';
import { ProviderErrorFilter } from '../provider/provider-error.filter.js';
import { PaymentsController } from './payments.controller.js';
import { PaymentsService } from './payments.service.js';

@Module({
  controllers: [PaymentsController, LedgerController],
  providers: [
    PaymentsService,
    PaymentProvider,
    { provide: Ledger, inject: [ConfigService], useFactory: createLedger },
    { provide: APP_FILTER, useClass: ProviderErrorFilter },
  ],
})
export class PaymentsModule {}
