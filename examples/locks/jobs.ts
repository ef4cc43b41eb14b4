import { Injectable } from '@nestjs/common';
import { Cron } from '@nestjs/schedule';
import { Idempotent, requireIdempotencyContext } from 'nestjs-idempotency';
import { Locks } from './locks.js'; // In your application: '@nestjs/locks'
import { Shop } from './shop.js';

@Injectable()
export class Jobs {
  constructor(
    private readonly locks: Locks,
    private readonly shop: Shop,
  ) {}

  /** One at a time. A tick that finds the lock taken is skipped, and the next one knows nothing of this one. */
  @Cron('*/5 * * * *', { name: 'count stock' })
  async countStock(): Promise<void> {
    const lock = await this.locks.acquire('count-stock');
    if (lock === null) return;
    try {
      await this.shop.countStock(lock.fencingToken);
    } finally {
      await lock.release();
    }
  }

  /** Once a day. A second tick of the day gets the first one's outcome, and waits for it while it runs. */
  @Cron('0 3 * * *', { name: 'send invoices', timeZone: 'UTC' })
  @Idempotent({
    operation: 'invoices.daily',
    key: () => new Date().toISOString().slice(0, 10),
    duplicates: { mode: 'wait', timeout: '15m' },
    lease: { maxExecution: '15m' },
  })
  async sendInvoices(): Promise<void> {
    const { downstreamKey } = requireIdempotencyContext();
    await this.shop.sendInvoices({ idempotencyKey: downstreamKey('invoices') });
  }
}
