/** The attributes of spans and links. Never a key, a caller, content, or the message of an error. */
export const ATTRIBUTE = {
  operation: 'idempotency.operation.name',
  transport: 'idempotency.transport',
  result: 'idempotency.result',
  recordKey: 'idempotency.record.key',
  attempt: 'idempotency.attempt.number',
  takeover: 'idempotency.attempt.takeover',
  end: 'idempotency.attempt.end',
  fencingToken: 'idempotency.fencing_token',
  linkType: 'idempotency.link.type',
  reconcile: 'idempotency.reconcile',
  errorType: 'error.type',
} as const;

/** What a link leads to. */
export type LinkType =
  /** From a replay: where the outcome was made. */
  | 'first_execution'
  /** From a conflict: the attempt that holds the key. */
  | 'running_attempt'
  /** From a takeover or a reconciler round: the attempt whose lease expired. */
  | 'previous_attempt'
  /** From what was saved later: the attempt's own span. */
  | 'own_attempt';
