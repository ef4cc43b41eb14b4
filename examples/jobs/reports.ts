import { Injectable } from '@nestjs/common';
import { Cron } from '@nestjs/schedule';
import { Idempotent, requireIdempotencyContext } from 'nestjs-idempotency';
import { Mailer } from './mailer.js';

@Injectable()
export class Reports {
  constructor(private readonly mailer: Mailer) {}

  /** Once a day, in the process whose timer fires first. */
  @Cron('0 3 * * *', { timeZone: 'UTC' })
  @Idempotent({
    operation: 'reports.daily',
    key: () => new Date().toISOString().slice(0, 10),
    // The other processes wait for the one that runs. If it dies, one of them takes over.
    duplicates: { mode: 'wait', timeout: '15m' },
    lease: { maxExecution: '15m' },
  })
  async daily(): Promise<void> {
    const { downstreamKey, signal } = requireIdempotencyContext();
    await this.mailer.sendReport({ idempotencyKey: downstreamKey('mail'), signal });
  }
}
