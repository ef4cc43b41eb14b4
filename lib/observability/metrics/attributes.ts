import type {
  AttemptOutcome,
  IncidentType,
  ReconcileResult,
  RequestResult,
} from '../../core/meter/meter-reading.js';
import type {
  BreakerState,
  LeaseLossReason,
  Transport,
  WaitEnd,
} from '../../core/record/events.js';
import type { StoreCommand } from '../../core/record/idempotency-events.js';
import type { StoreErrorType } from '../../core/util/errors.js';

/** What tells the series of a metric apart. Never a key, a caller, or anything else that a request brings. */
export interface Attribute {
  /** By the conventions of OpenTelemetry. */
  readonly name: string;
  /** All values, or in words what bounds them. */
  readonly values: readonly string[] | string;
}

export const OPERATION: Attribute = {
  name: 'idempotency.operation.name',
  values: 'at most 200 names, and `_OTHER` for all others together',
};

export const TRANSPORT: Attribute = {
  name: 'idempotency.transport',
  values: all<Transport>({ http: 1, message: 1, websocket: 1, graphql: 1, call: 1 }),
};

export const RESULT: Attribute = {
  name: 'idempotency.result',
  values: all<RequestResult>({
    executed: 1,
    recovered: 1,
    replayed: 1,
    unprotected: 1,
    mismatch: 1,
    in_progress: 1,
    outcome_unknown: 1,
    store_unavailable: 1,
    shutting_down: 1,
    key_missing: 1,
    key_invalid: 1,
    caller_unknown: 1,
    content_invalid: 1,
  }),
};

export const INCIDENT: Attribute = {
  name: 'idempotency.incident.type',
  values: all<IncidentType>({
    superseded: 1,
    outcome_diverged: 1,
    response_diverged: 1,
    record_lost: 1,
    save_delayed: 1,
    save_failed: 1,
    release_failed: 1,
    rolled_back: 1,
    conflicted: 1,
    commit_hook_failed: 1,
    recovery_failed: 1,
    slow_attempt: 1,
    lease_lost: 1,
    unprotected: 1,
  }),
};

export const LOSS_REASON: Attribute = {
  name: 'idempotency.lease.loss.reason',
  values: all<LeaseLossReason>({
    lost: 1,
    gone: 1,
    max_execution: 1,
    expired: 1,
    connection_lost: 1,
  }),
};

export const OUTCOME: Attribute = {
  name: 'idempotency.attempt.outcome',
  values: all<AttemptOutcome>({ kept: 1, released: 1, lost: 1, error: 1 }),
};

export const WAIT_END: Attribute = {
  name: 'idempotency.wait.end',
  values: all<WaitEnd>({ outcome: 1, released: 1, timeout: 1, caller_gone: 1, shutdown: 1 }),
};

export const RECONCILED: Attribute = {
  name: 'idempotency.reconcile.result',
  values: all<ReconcileResult>({ completed: 1, released: 1, overtaken: 1, failed: 1, unknown: 1 }),
};

const BREAKER_STATES = all<BreakerState>({ closed: 1, open: 1, half_open: 1 });

export const BREAKER = { name: 'idempotency.store.breaker.state', values: BREAKER_STATES };

export const COMMAND: Attribute = {
  name: 'idempotency.store.command',
  values: all<StoreCommand>({
    begin: 1,
    extend: 1,
    complete: 1,
    release: 1,
    watch: 1,
    abandoned: 1,
    transaction_lock: 1,
    transaction_complete: 1,
    transaction_ended: 1,
  }),
};

export const SYSTEM: Attribute = {
  name: 'db.system.name',
  values: '`redis`, `postgresql`, `memory`, or the `system` of a custom store',
};

/** Absent where nothing failed. */
export const ERROR_TYPE: Attribute = {
  name: 'error.type',
  values: all<StoreErrorType>({
    idempotency_store_unavailable: 1,
    idempotency_store_outcome_unknown: 1,
    idempotency_store_reply_mismatched: 1,
    idempotency_store_misconfigured: 1,
    _OTHER: 1,
  }),
};

/** A value that is missing does not compile. */
function all<Value extends string>(values: Readonly<Record<Value, 1>>): readonly Value[] {
  return Object.keys(values) as Value[];
}
