import type { ResolvedProtocolOptions } from './options.js';
import type { Fingerprint, RecordKey } from './record.js';
import type { Scope } from './record-key.js';

/** One request to run an operation, as the engine needs to know it. */
export interface Claim {
  readonly recordKey: RecordKey;
  readonly fingerprint: Fingerprint;
  /** The operation's stable name. */
  readonly operation: string;
  readonly scope: Scope;
  /** The idempotency key as the client chose it. */
  readonly key: string;
  readonly options: ResolvedProtocolOptions;
  /** The caller's own wish, in milliseconds: shortens `waitTimeoutMs`, never prolongs it. */
  readonly waitAtMostMs?: number | undefined;
  /** Aborted when the caller has left: nobody waits for the outcome any more. */
  readonly callerGone?: AbortSignal | undefined;
}
