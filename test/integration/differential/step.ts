import type { Begin, Complete, Extend, Release } from '../../../lib/core/idempotency-store.js';
import type { Lease } from '../../../lib/core/record.js';

type Untimed<Command> = Omit<Command, 'timeoutMs' | 'recordKey'>;

/** One command on the one record of a sequence, with all that it depends on. */
export type Command =
  | { readonly operation: 'begin'; readonly command: Untimed<Begin> }
  | { readonly operation: 'extend'; readonly lease: OwnLease; readonly command: Untimed<Extend> }
  | {
      readonly operation: 'complete';
      readonly lease: OwnLease;
      readonly command: Untimed<Complete>;
    }
  | { readonly operation: 'release'; readonly lease: OwnLease; readonly command: Untimed<Release> }
  | { readonly operation: 'inspect' }
  /** The store loses the record. */
  | { readonly operation: 'lose' };

export type OwnLease = Omit<Lease, 'recordKey'>;

/** A command and the store's clock, in microseconds, at which it arrives. */
export type Step = Command & { readonly nowUs: number };
