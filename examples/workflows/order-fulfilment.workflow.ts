import { Injectable } from '@nestjs/common';
import type { Charge, Order } from './bank.js';
import { PaymentsService } from './payments.service.js';
import type { WorkflowContext } from './journal.js'; // In your application: '@nestjs/workflows'

@Injectable() // In your application: @Workflow('order-fulfilment')
export class OrderFulfilment {
  constructor(private readonly payments: PaymentsService) {}

  async run(workflow: WorkflowContext, order: Order): Promise<Charge> {
    const charge = await workflow.step(
      'charge',
      ({ idempotencyKey }) => this.payments.charge(order, idempotencyKey),
      {
        compensate: (made: Charge, { idempotencyKey }) =>
          this.payments.refund(made, idempotencyKey),
      },
    );
    await workflow.step('ship', () => {
      if (order.isRefused) throw new Error('The carrier refuses it.');
      return Promise.resolve({});
    });
    return charge;
  }
}
