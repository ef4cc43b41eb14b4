import type { IdempotencyEvents } from '../record/idempotency-events.js';
import type { SurroundedRequest, Telemetry, TelemetrySource } from './telemetry.js';

/** What the store keeps as a note. */
const TRACE = /^[\x21-\x7e]{1,64}$/;

/** The telemetries of an application. None of their errors reaches a caller. */
export class Telemetries {
  /** Absent if no telemetry has a trace: then a begin asks for none. */
  readonly traceOf: (() => string | undefined) | undefined;
  private readonly all: readonly Telemetry[];
  private readonly surrounding: readonly Telemetry[];
  private stops: (() => void)[] = [];

  constructor(
    given: Telemetry | readonly Telemetry[],
    private readonly events: IdempotencyEvents,
  ) {
    this.all = [given].flat();
    this.surrounding = this.all.filter(({ around }) => around !== undefined);
    const tracing = this.all.filter(({ traceOf }) => traceOf !== undefined);
    this.traceOf = tracing.length === 0 ? undefined : () => this.firstTraceOf(tracing);
  }

  start(meter: TelemetrySource['meter']): void {
    const source = { events: this.events, meter };
    for (const telemetry of this.all) {
      this.guarded('start', () => this.stops.push(telemetry.start(source)));
    }
  }

  stop(): void {
    const { stops } = this;
    this.stops = [];
    for (const stop of stops) this.guarded('stop', stop);
  }

  /** Whether {@link around} surrounds anything. */
  get surrounds(): boolean {
    return this.surrounding.length > 0;
  }

  /**
   * Calls `run` once, within all telemetries.
   * @param errorOf - of the result, the error that the caller gets, if any.
   */
  around<Result>(
    request: SurroundedRequest,
    run: () => Promise<Result>,
    errorOf: (result: Result) => unknown,
  ): Promise<Result> {
    let running: Promise<Result> | undefined;
    const ends: ((error?: unknown) => void)[] = [];
    const enter = (index: number): void => {
      const telemetry = this.surrounding[index];
      if (telemetry === undefined) {
        running ??= run();
        return;
      }
      let hasEntered = false;
      this.guarded('around', () => {
        telemetry.around?.(request, (ended) => {
          if (hasEntered) return;
          hasEntered = true;
          ends.push(ended);
          enter(index + 1);
        });
      });
      if (!hasEntered) {
        hasEntered = true;
        enter(index + 1);
      }
    };
    enter(0);
    const result = running ?? run();
    const end = (error: unknown) => {
      // The innermost first.
      for (const ended of ends.reverse()) {
        this.guarded('around', () => {
          ended(error);
        });
      }
    };
    result.then((value) => {
      end(errorOf(value));
    }, end);
    return result;
  }

  private firstTraceOf(tracing: readonly Telemetry[]): string | undefined {
    for (const telemetry of tracing) {
      const trace = this.guarded('traceOf', () => checkedTrace(telemetry.traceOf?.()));
      if (trace !== undefined) return trace;
    }
    return undefined;
  }

  private guarded<Result>(method: string, call: () => Result): Result | undefined {
    try {
      return call();
    } catch (error) {
      this.events.telemetryFailed(method, error);
      return undefined;
    }
  }
}

function checkedTrace(trace: unknown): string | undefined {
  if (trace === undefined || (typeof trace === 'string' && TRACE.test(trace))) return trace;
  throw new TypeError(
    'traceOf() must return 1–64 printable ASCII characters without white space, or undefined.',
  );
}
