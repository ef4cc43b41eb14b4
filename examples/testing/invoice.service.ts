import { Injectable } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import { Mailer } from './mailer.js';

@Injectable()
export class InvoiceService {
  constructor(private readonly mailer: Mailer) {}

  @Idempotent({ operation: 'invoice.send', key: (id: string) => id, scope: () => [] })
  async send(id: string): Promise<string> {
    return this.mailer.send(`Invoice ${id}`);
  }
}
