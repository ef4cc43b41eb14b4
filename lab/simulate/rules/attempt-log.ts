import type { IdempotencyEvent } from '../../../test/support/internals/core.js';

/** What has happened to one attempt. Times are of its process. */
interface AttemptLog {
  /** Of the lease that it extended last. */
  token: string | undefined;
  isRunning: boolean;
  /** For the first time: an inner decorator may call the operation again. */
  startedAt: number | undefined;
  /** Its operation has had its effect, and its outcome is one to keep. */
  hasReturned: boolean;
  hasLookedUp: boolean;
  /** The look-up has found what an earlier attempt has done. */
  hasFound: boolean;
  extendedAt: number;
  /** A reply has said that it need not extend its lease any more. */
  hasLost: boolean;
  completes: number;
  /** When its outcome was sent for the first time. */
  completedAt: number | undefined;
  /** When a reply has said that there is no record, so that its failure is not stored. */
  goneAt: number | undefined;
  /** Another attempt has the record. */
  isOverruled: boolean;
  releasedAt: number | undefined;
  isReleased: boolean;
  readonly events: Set<IdempotencyEvent['type']>;
}

/** The attempts of an episode, by record and fencing token: those without protection of one key share an entry. */
export class AttemptLogs {
  private readonly logs = new Map<string, AttemptLog>();

  find(recordKey: string, fence: number): AttemptLog | undefined {
    return this.logs.get(`${recordKey} ${fence}`);
  }

  of(recordKey: string, fence: number): AttemptLog {
    return this.find(recordKey, fence) ?? this.begin(recordKey, fence);
  }

  /** Another attempt may have had the token: before a loss of the record, and a step of the server's clock back. */
  begin(recordKey: string, fence: number): AttemptLog {
    const log = newLog();
    this.logs.set(`${recordKey} ${fence}`, log);
    return log;
  }
}

function newLog(): AttemptLog {
  return {
    token: undefined,
    isRunning: false,
    startedAt: undefined,
    hasReturned: false,
    hasLookedUp: false,
    hasFound: false,
    extendedAt: -Infinity,
    hasLost: false,
    completes: 0,
    completedAt: undefined,
    goneAt: undefined,
    isOverruled: false,
    releasedAt: undefined,
    isReleased: false,
    events: new Set(),
  };
}
