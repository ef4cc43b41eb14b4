import { Injectable } from '@nestjs/common';

export interface Payment {
  readonly amount: number;
}

/** Stands for the provider: its list of charges is what was executed. */
@Injectable()
export class Payments {
  readonly charges: Payment[] = [];

  charge(payment: Payment) {
    this.charges.push(payment);
    return { charge: this.charges.length, ...payment };
  }
}
