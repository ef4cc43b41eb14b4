import type { OnApplicationShutdown } from '@nestjs/common';
import type { IdempotencyModuleOptions } from 'nestjs-idempotency';
import type { Ledger } from '../ledger/ledger.js';

/** The module's options that follow from where the records live. */
export type RecordOptions = Pick<
  IdempotencyModuleOptions,
  'store' | 'unitOfWork' | 'transactional'
>;

/** What STORE decides: where the idempotency records live, and where the ledger is kept. */
export class Persistence implements OnApplicationShutdown {
  constructor(
    readonly records: RecordOptions,
    readonly ledger: Ledger,
    private readonly close: () => Promise<void> = () => Promise.resolve(),
  ) {}

  /** Operations that are running are waited for before this. */
  onApplicationShutdown(): Promise<void> {
    return this.close();
  }
}
