import { IdempotencyEngine } from '../core/engine/idempotency-engine.js';
import { errorTypeOf } from '../core/errors/errors.js';
import type { IdempotencyMeter } from '../core/meter/idempotency-meter.js';
import { OutcomeTransform } from '../core/payload/outcome-transform.js';
import { protectionOf } from '../core/payload/protect-digests.js';
import { Annotations } from '../core/record/annotations.js';
import type { IdempotencyEvents } from '../core/record/idempotency-events.js';
import { Telemetries } from '../core/telemetry/telemetries.js';
import type { Clock } from '../core/util/clock.js';
import {
  resolveModuleOptions,
  type IdempotencyModuleOptions,
} from './options/idempotency-options.js';

/** The engine of these options: of an application, or of a tool for operators. */
export function engineOf(
  options: IdempotencyModuleOptions,
  events: IdempotencyEvents,
  meter: IdempotencyMeter,
  clock: Clock,
): IdempotencyEngine {
  const { limits, service, secrets, protectDigests, blobs, outcome, annotate } =
    resolveModuleOptions(options);
  const { store, unitOfWork, telemetry = [] } = options;
  const keysStale = (error: unknown) => {
    events.emit({ type: 'keys_stale', error, errorType: errorTypeOf(error) });
  };
  const { dictionaries } = outcome;
  const outcomes = new OutcomeTransform(
    secrets,
    clock,
    keysStale,
    dictionaries,
    blobs,
    meter,
    limits.maxUploads,
  );
  const traceFailed = (error: Error) => {
    events.telemetryFailed('traceOf', error);
  };
  const engine = new IdempotencyEngine(
    store,
    events,
    limits,
    unitOfWork,
    new Telemetries(telemetry, events),
    clock,
    service,
    outcomes,
    protectionOf(protectDigests, outcomes.ring),
    annotate === false ? undefined : new Annotations(annotate, service, traceFailed),
  );
  meter.readFrom(engine);
  return engine;
}
