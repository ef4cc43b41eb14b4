import { Controller, Param, Post, StreamableFile, UseGuards } from '@nestjs/common';
import { ApiBearerAuth, ApiCreatedResponse, ApiProduces } from '@nestjs/swagger';
import { Idempotent } from 'nestjs-idempotency';
import { BearerTokenGuard } from '../auth/bearer-token.guard.js';
import { CurrentUser } from '../auth/current-user.decorator.js';
import type { User } from '../auth/user.js';
import { PaymentsService } from '../payments/payments.service.js';
import { Invoice } from './invoice.js';

@Controller('payments/:id/invoices')
@ApiBearerAuth()
@UseGuards(BearerTokenGuard)
export class InvoicesController {
  constructor(private readonly payments: PaymentsService) {}

  /**
   * Gives a number, so a retry must get the same invoice: 40 MB, which are streamed into a file, and are never in memory as
   * a whole. The client gets them meanwhile but for their end, which waits for file and record; a retry, from the file. The
   * record stays for a day, and says that there is an invoice; the file for an hour.
   */
  @Post()
  @Idempotent({
    operation: 'payments.invoice',
    transaction: false,
    outcome: { bodyRetention: '1h', offload: { delivery: 'hold-last' } },
  })
  @ApiProduces('text/csv')
  @ApiCreatedResponse({ schema: { type: 'string', format: 'binary' } })
  async create(@Param('id') id: string, @CurrentUser() user: User): Promise<StreamableFile> {
    const payment = await this.payments.find(id, user);
    const invoice = new Invoice(payment.id);
    return new StreamableFile(invoice.stream(), {
      type: 'text/csv',
      disposition: `attachment; filename="${invoice.fileName}"`,
    });
  }
}
