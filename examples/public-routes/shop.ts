import { Injectable } from '@nestjs/common';

export interface Checkout {
  readonly email: string;
}

/** What was executed. */
@Injectable()
export class Shop {
  readonly emails: string[] = [];

  checkOut({ email }: Checkout) {
    this.emails.push(email);
    return { email, number: this.emails.length };
  }
}
