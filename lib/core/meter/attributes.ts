import { BLOB_DIRECTIONS, BLOB_RESULTS, BLOB_WAIT_ENDS } from '../record/blob-observer.js';
import type {
  BreakerState,
  LeaseLossReason,
  Transport,
  UnreadableReason,
  WaitEnd,
} from '../record/events.js';
import { STORE_COMMANDS } from '../record/idempotency-events.js';
import { STORE_ERROR_TYPES } from '../errors/errors.js';
import {
  INCIDENTS,
  REQUEST_RESULTS,
  type AttemptOutcome,
  type OutcomePlace,
  type ReconcileResult,
} from './meter-reading.js';

/** What tells the series of a metric apart. Never a key, a caller, or anything else that a request brings. */
export interface Attribute<Values extends readonly string[] | string = readonly string[] | string> {
  /** By the conventions of OpenTelemetry. */
  readonly name: string;
  /** All values, or in words what bounds them. */
  readonly values: Values;
}

export const OPERATION = {
  name: 'idempotency.operation.name',
  values: 'at most 200 names, and `_OTHER` for all others together',
};

export const TRANSPORT = {
  name: 'idempotency.transport',
  values: all<Transport>({ http: 1, message: 1, websocket: 1, graphql: 1, call: 1 }),
};

export const RESULT = {
  name: 'idempotency.result',
  values: REQUEST_RESULTS,
};

export const INCIDENT = {
  name: 'idempotency.incident.type',
  values: INCIDENTS,
};

export const LOSS_REASON = {
  name: 'idempotency.lease.loss.reason',
  values: all<LeaseLossReason>({
    lost: 1,
    gone: 1,
    max_execution: 1,
    expired: 1,
    connection_lost: 1,
  }),
};

export const OUTCOME = {
  name: 'idempotency.attempt.outcome',
  values: all<AttemptOutcome>({ kept: 1, released: 1, lost: 1, error: 1 }),
};

export const WAIT_END = {
  name: 'idempotency.wait.end',
  values: all<WaitEnd>({
    outcome: 1,
    released: 1,
    timeout: 1,
    caller_gone: 1,
    shutdown: 1,
    key_full: 1,
    caller_full: 1,
    process_full: 1,
  }),
};

export const UNREADABLE_REASON = {
  name: 'idempotency.outcome.unreadable.reason',
  values: all<UnreadableReason>({
    key: 1,
    dictionary: 1,
    algorithm: 1,
    blob_missing: 1,
    blob_unavailable: 1,
    blob_store: 1,
    integrity: 1,
    format: 1,
  }),
};

/** Where an outcome is: in its record, or its body in a blob. */
export const PLACE = {
  name: 'idempotency.outcome.place',
  values: all<OutcomePlace>({ record: 1, blob: 1 }),
};

export const DIRECTION = {
  name: 'idempotency.outcome.direction',
  values: BLOB_DIRECTIONS,
};

export const BLOB_RESULT = {
  name: 'idempotency.blob.result',
  values: BLOB_RESULTS,
};

export const BLOB_WAIT_END = {
  name: 'idempotency.blob.wait.end',
  values: BLOB_WAIT_ENDS,
};

export const RECONCILED = {
  name: 'idempotency.reconcile.result',
  values: all<ReconcileResult>({
    completed: 1,
    released: 1,
    overtaken: 1,
    failed: 1,
    unknown: 1,
  }),
};

export const BREAKER = {
  name: 'idempotency.store.breaker.state',
  values: all<BreakerState>({ closed: 1, open: 1, half_open: 1 }),
};

export const COMMAND = {
  name: 'idempotency.store.command',
  values: STORE_COMMANDS,
};

export const SYSTEM = {
  name: 'db.system.name',
  values: '`redis`, `postgresql`, `memory`, or the `system` of a custom store',
};

/** Absent where nothing failed. */
export const ERROR_TYPE = {
  name: 'error.type',
  values: STORE_ERROR_TYPES,
};

/** A value that is missing does not compile. */
function all<Value extends string>(values: Readonly<Record<Value, 1>>): readonly Value[] {
  return Object.keys(values) as Value[];
}
