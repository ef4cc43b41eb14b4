import { Module } from '@nestjs/common';
import { Bank } from './bank.js';
import { OrdersController } from './orders.controller.js';
import { Payments } from './payments.js';

@Module({ controllers: [OrdersController], providers: [{ provide: Payments, useClass: Bank }] })
export class BillingModule {}
