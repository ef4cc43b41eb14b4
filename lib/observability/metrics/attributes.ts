import { INCIDENTS, LOSS_REASONS, RESULTS } from '../../core/meter/cells.js';
import { RECONCILE_RESULTS } from '../../core/meter/idempotency-meter.js';
import type { AttemptOutcome } from '../../core/meter/meter-reading.js';
import { COMMANDS } from '../../core/meter/store-cells.js';
import type { BreakerState, Transport, WaitEnd } from '../../core/record/events.js';
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
  values: RESULTS,
};

export const INCIDENT: Attribute = {
  name: 'idempotency.incident.type',
  values: INCIDENTS,
};

export const LOSS_REASON: Attribute = {
  name: 'idempotency.lease.loss.reason',
  values: LOSS_REASONS,
};

export const OUTCOME: Attribute = {
  name: 'idempotency.attempt.outcome',
  values: all<AttemptOutcome>({ kept: 1, released: 1, lost: 1, error: 1 }),
};

export const WAIT_END: Attribute = {
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

export const RECONCILED: Attribute = {
  name: 'idempotency.reconcile.result',
  values: RECONCILE_RESULTS,
};

const BREAKER_STATES = all<BreakerState>({ closed: 1, open: 1, half_open: 1 });

export const BREAKER = { name: 'idempotency.store.breaker.state', values: BREAKER_STATES };

export const COMMAND: Attribute = {
  name: 'idempotency.store.command',
  values: COMMANDS,
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
