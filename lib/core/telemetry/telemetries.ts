import type { IdempotencyEvents } from '../record/idempotency-events.js';
import { IdempotencyOptionsError } from '../errors/errors.js';
import { forget } from '../util/maybe-async.js';
import type { SurroundedRequest, Surrounding, Telemetry, TelemetrySource } from './telemetry.js';

/** What {@link Telemetry.traceOf} may return. */
const TRACE = /^[\x21-\x7e]{1,64}$/;

/** The telemetries of an application. None of their errors reaches a caller. */
export class Telemetries {
  /** Absent if no telemetry has it: then a begin asks for nothing. */
  readonly traceOf: (() => string | undefined) | undefined;
  /** Absent if no telemetry has it. */
  readonly around: ((request: SurroundedRequest) => GuardedSurrounding | undefined) | undefined;
  private readonly all: readonly Telemetry[];
  private stops: (() => void)[] = [];

  constructor(
    given: Telemetry | readonly Telemetry[],
    private readonly events: IdempotencyEvents,
  ) {
    // One that is given twice would write everything twice.
    this.all = [...new Set([given].flat())];
    const tracing = this.all.filter((telemetry) => telemetry.traceOf !== undefined);
    if (tracing.length > 0) this.traceOf = () => this.traceBy(tracing);
    const surrounding = this.all.filter((telemetry) => telemetry.around !== undefined);
    if (surrounding.length > 0) this.around = (request) => this.surround(request, surrounding);
  }

  /** @throws {@link IdempotencyOptionsError} of a telemetry that cannot be used as it is configured. */
  start(meter: TelemetrySource['meter']): void {
    const source = { events: this.events, meter };
    for (const telemetry of this.all) {
      try {
        const stop = telemetry.start(source);
        this.watch('start', stop);
        this.stops.push(stop);
      } catch (error) {
        if (error instanceof IdempotencyOptionsError) {
          this.stop();
          throw error;
        }
        this.events.telemetryFailed('start', error);
      }
    }
  }

  stop(): void {
    const { stops } = this;
    this.stops = [];
    for (const stop of stops) this.guard('stop', stop);
  }

  private traceBy(tracing: readonly Telemetry[]): string | undefined {
    for (const telemetry of tracing) {
      try {
        const trace = telemetry.traceOf?.();
        this.watch('traceOf', trace);
        if (trace !== undefined) return checkedTrace(trace);
      } catch (error) {
        this.events.telemetryFailed('traceOf', error);
      }
    }
    return undefined;
  }

  private surround(
    request: SurroundedRequest,
    surrounding: readonly Telemetry[],
  ): GuardedSurrounding | undefined {
    let inner: GuardedSurrounding | undefined;
    for (const telemetry of surrounding) {
      try {
        const own = telemetry.around?.(request);
        this.watch('around', own);
        if (own !== undefined) inner = new GuardedSurrounding(own, inner, this.guard);
      } catch (error) {
        this.events.telemetryFailed('around', error);
      }
    }
    return inner;
  }

  private readonly guard = (method: string, call: () => unknown): void => {
    try {
      this.watch(method, call());
    } catch (error) {
      this.events.telemetryFailed(method, error);
    }
  };

  /** An async function fits the types, too: unhandled, its rejection would end the process. */
  private watch(method: string, returned: unknown): void {
    forget(returned, (error) => {
      this.events.telemetryFailed(method, error);
    });
  }
}

/** As it may be in fact: async functions fit `void`. */
type AnySurrounding = {
  readonly [Name in keyof Surrounding]: (...given: Parameters<Surrounding[Name]>) => unknown;
};

/** Calls what is surrounded once, whatever the telemetry does. */
export class GuardedSurrounding {
  constructor(
    private readonly own: AnySurrounding,
    private readonly inner: GuardedSurrounding | undefined,
    private readonly guard: (method: string, call: () => unknown) => void,
  ) {}

  /** @param handle - must not throw: the error would be the telemetry's. */
  run<Result>(handle: () => Result): Result {
    const results: Result[] = [];
    const once = () => {
      if (results.length > 0) return;
      results.push(this.inner === undefined ? handle() : this.inner.run(handle));
    };
    this.guard('around', () => this.own.run(once));
    once();
    return results[0] as Result;
  }

  ended(error?: unknown): void {
    this.inner?.ended(error);
    this.guard('around', () => this.own.ended(error));
  }
}

function checkedTrace(trace: unknown): string {
  if (typeof trace === 'string' && TRACE.test(trace)) return trace;
  throw new TypeError(
    'traceOf() must return 1–64 printable ASCII characters without white space, or undefined.',
  );
}
