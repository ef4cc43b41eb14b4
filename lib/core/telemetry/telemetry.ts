import type { IdempotencyMeter } from '../meter/idempotency-meter.js';
import type { CountedSubject, IdempotencyEvents } from '../record/idempotency-events.js';

/** What a telemetry reads. */
export interface TelemetrySource {
  readonly events: IdempotencyEvents;
  readonly meter: IdempotencyMeter;
}

/** The request that a telemetry surrounds. */
export type SurroundedRequest = CountedSubject;

/**
 * Tells a monitoring system what happens: `openTelemetry()`, `prometheus()`, or one of your own. Its errors are logged;
 * they never affect a request.
 */
export abstract class Telemetry {
  /**
   * Called when an application starts, before its first request, with what only this application does.
   * @returns a function that stops it. Called after the application's last attempt has ended, or has been given up.
   */
  abstract start(source: TelemetrySource): () => void;

  /**
   * Called in the async context of a request, as its begin is sent.
   * @returns the trace of the execution, if the request is executed: 1–64 printable ASCII characters without white
   * space. The record keeps it as its note, and events about the execution have it as `trace`. `undefined`, the
   * default, for none.
   */
  traceOf?(): string | undefined;

  /**
   * Surrounds the handling of a request, from before its begin, in its async context. It has to call `run` before it
   * returns: otherwise the request is handled outside.
   * @param run - handles the request, once. It calls `ended` at the end: with the error that the caller gets, if any.
   */
  around?(request: SurroundedRequest, run: (ended: (error?: unknown) => void) => void): void;
}
