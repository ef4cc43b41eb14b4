import type { IdempotencyMeter } from '../meter/idempotency-meter.js';
import type { Transport } from '../record/events.js';
import type { IdempotencyEvents } from '../record/idempotency-events.js';

/** What a telemetry reads. */
export interface TelemetrySource {
  readonly events: IdempotencyEvents;
  readonly meter: IdempotencyMeter;
}

/** A request that may be surrounded. */
export interface SurroundedRequest {
  /** The operation's stable name. */
  readonly operation: string;
  readonly transport: Transport;
}

/** What surrounds the handling of one request. */
export interface Surrounding {
  /** Calls `handle` before it returns, in an async context of its own for example. Otherwise it is called afterwards. */
  run(handle: () => void): void;
  /** The request has been handled. `error` is what its caller gets, if anything. */
  ended(error?: unknown): void;
}

/**
 * Tells a monitoring system what happens: `openTelemetry()`, `prometheus()`, or one of your own. Its errors are logged;
 * they never affect a request.
 */
export abstract class Telemetry {
  /**
   * Called when an application starts, before its first request. Applications may share a telemetry: each has a source.
   * @returns a function that stops it, called after the last attempt has ended or been given up.
   * @throws {@link IdempotencyOptionsError} if it cannot be used as it is configured. This stops the start; other errors
   * are logged.
   */
  abstract start(source: TelemetrySource): () => void;

  /**
   * Called in the async context of a request, as its begin is sent.
   * @returns the trace of the execution, should the request be executed: 1–64 printable ASCII characters without white
   * space. The record keeps it as its note, and events about the execution have it as `trace`. `undefined`, the
   * default: none.
   */
  traceOf?(): string | undefined;

  /**
   * Called in the async context of a request, before its begin.
   * @returns what surrounds its handling; `undefined`, the default: nothing.
   */
  around?(request: SurroundedRequest): Surrounding | undefined;
}
