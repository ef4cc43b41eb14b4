import { Injectable } from '@nestjs/common';

@Injectable()
export class Mails {
  readonly sent: string[] = [];

  async sendReceipt(payment: string): Promise<void> {
    this.sent.push(payment);
    return Promise.resolve();
  }
}
