import type {
  Amend,
  Begin,
  Complete,
  Extend,
  Release,
  Lease,
} from '../../support/internals/core.js';

type Untimed<Command> = Omit<Command, 'timeoutMs' | 'recordKey'>;

/** One command on the record of a sequence, with everything it depends on. */
export type Command =
  | { readonly operation: 'begin'; readonly command: Untimed<Begin> }
  | { readonly operation: 'extend'; readonly lease: OwnLease; readonly command: Untimed<Extend> }
  | {
      readonly operation: 'complete';
      readonly lease: OwnLease;
      readonly command: Untimed<Complete>;
    }
  | { readonly operation: 'release'; readonly lease: OwnLease; readonly command: Untimed<Release> }
  | { readonly operation: 'amend'; readonly command: Untimed<Amend> }
  /** `list` shows the record as inspect does, without its outcome. */
  | { readonly operation: 'inspect' }
  | { readonly operation: 'list' }
  /** The store loses the record. */
  | { readonly operation: 'lose' };

export type OwnLease = Omit<Lease, 'recordKey'>;

/** A command and the time of its arrival by the store's clock, in microseconds. */
export type Step = Command & { readonly nowUs: number };
