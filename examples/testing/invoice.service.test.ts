import { beforeEach, describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import { IdempotencyTestingModule, unprotected } from 'nestjs-idempotency/testing';
import { InvoiceService } from './invoice.service.js';
import { Mailer } from './mailer.js';

describe('InvoiceService', () => {
  let sent: string[];
  let mailer: Mailer;
  beforeEach(() => {
    sent = [];
    mailer = {
      send: (subject) => {
        sent.push(subject);
        return Promise.resolve(`mail ${sent.length}`);
      },
    };
  });

  it('sends an invoice: without a module', async () => {
    const invoices = unprotected(new InvoiceService(mailer));
    expect(await invoices.send('7')).toBe('mail 1');
    expect(sent).toEqual(['Invoice 7']);
  });

  it('sends an invoice: with a module of Nest', async () => {
    const module = await Test.createTestingModule({
      imports: [IdempotencyTestingModule.passThrough()],
      providers: [InvoiceService, { provide: Mailer, useValue: mailer }],
    }).compile();
    expect(await module.get(InvoiceService).send('7')).toBe('mail 1');
  });

  it('sends it once', async () => {
    const module = await Test.createTestingModule({
      imports: [IdempotencyTestingModule.inMemory()],
      providers: [InvoiceService, { provide: Mailer, useValue: mailer }],
    }).compile();
    await module.init();
    const invoices = module.get(InvoiceService);
    await invoices.send('7');
    expect(await invoices.send('7')).toBe('mail 1');
    expect(sent).toEqual(['Invoice 7']);
    await module.close();
  });
});
