import type { OnApplicationShutdown } from '@nestjs/common';
import type { IdempotencyModuleOptions } from 'nestjs-idempotency';
import type { Ledger } from '../ledger/ledger.js';

/** The module's options that depend on where records are stored. */
export type RecordOptions = Pick<IdempotencyModuleOptions, 'store' | 'unitOfWork' | 'transaction'>;

/** Depends on STORE: where the idempotency records and the ledger are kept. */
export class Persistence implements OnApplicationShutdown {
  constructor(
    readonly records: RecordOptions,
    readonly ledger: Ledger,
    private readonly close: () => Promise<void> = () => Promise.resolve(),
  ) {}

  /** Called after running operations have completed. */
  onApplicationShutdown(): Promise<void> {
    return this.close();
  }
}
