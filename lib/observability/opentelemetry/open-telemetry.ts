import { trace } from '@opentelemetry/api';
import type { Telemetry } from '../../core/telemetry/telemetry.js';
import {
  choice,
  flag,
  resolveOptions,
  type Defaulted,
  type Schema,
} from '../../core/options/option-schema.js';
import { METRICS_OPTIONS, startMetrics, type OpenTelemetryMetricsOptions } from './metrics.js';
import { OwnSpan } from './own-span.js';
import { SpanWriter } from './span-writer.js';
import { noteOf } from './trace-note.js';

/** Options of {@link openTelemetry}. */
export interface OpenTelemetryOptions {
  /**
   * - `'auto'`: writes on the active span. Calls, methods and GraphQL fields have a span of their own, and so has any
   *   request without an active span.
   * - `'always'`: every request has a span of its own.
   * - `false`: no spans, no attributes and no links.
   * @defaultValue 'auto'
   */
  readonly spans?: 'auto' | 'always' | false;
  /**
   * Keeps the trace of each execution in its record, if its span is sampled: 34 bytes. Replays, conflicts and takeovers
   * link to it.
   * @defaultValue true
   */
  readonly links?: boolean;
  /** Writes the record key on spans: a digest that reveals neither the key nor the caller. @defaultValue true */
  readonly recordKeys?: boolean;
  /** Exports all metrics of the library. `false`: none. */
  readonly metrics?: false | OpenTelemetryMetricsOptions;
}

interface ResolvedOptions extends Defaulted<Omit<OpenTelemetryOptions, 'metrics'>> {
  readonly metrics: false | Defaulted<OpenTelemetryMetricsOptions>;
}

export const OPEN_TELEMETRY_OPTIONS: Schema<OpenTelemetryOptions, ResolvedOptions> = {
  spans: choice(['auto', 'always', false], { default: 'auto' }),
  links: flag(true),
  recordKeys: flag(true),
  metrics: METRICS_OPTIONS,
};

/**
 * Traces and metrics by OpenTelemetry, for the module option `telemetry`. It uses the global API: the SDK may start
 * earlier, later, again, or never.
 * @throws {@link IdempotencyOptionsError} for an invalid option.
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Telemetry {
  const { spans, links, recordKeys, metrics } = resolveOptions(
    'openTelemetry()',
    OPEN_TELEMETRY_OPTIONS,
    options,
  );
  const exportMetrics: Telemetry['start'] = (source) =>
    metrics === false ? () => undefined : startMetrics(source, metrics);
  if (spans === false) return { start: exportMetrics };
  return {
    start: (source) => {
      const writer = new SpanWriter({ policy: spans, links, recordKeys });
      const stopMetrics = exportMetrics(source);
      const unsubscribe = source.events.subscribe(
        (event) => {
          writer.write(event);
        },
        { wants: (type) => writer.wants(type) },
      );
      return () => {
        unsubscribe();
        stopMetrics();
      };
    },
    around: (request) => OwnSpan.start(spans, request),
    ...(links && { traceOf: () => noteOf(trace.getActiveSpan()) }),
  };
}
