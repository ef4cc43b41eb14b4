import { trace } from '@opentelemetry/api';
import type { Telemetry } from '../../core/telemetry/telemetry.js';
import {
  choice,
  flag,
  resolveOptions,
  type Defaulted,
  type Schema,
} from '../../core/util/option-schema.js';
import { OwnSpan } from './own-span.js';
import { SpanWriter } from './span-writer.js';
import { noteOf } from './trace-note.js';

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
}

export const OPEN_TELEMETRY_OPTIONS: Schema<
  OpenTelemetryOptions,
  Defaulted<OpenTelemetryOptions>
> = {
  spans: choice(['auto', 'always', false], { default: 'auto' }),
  links: flag(true),
  recordKeys: flag(true),
};

/**
 * Traces by OpenTelemetry, for the module option `telemetry`. It uses the global API: the SDK may start earlier, later,
 * again, or never.
 * @throws {@link IdempotencyOptionsError} for an invalid option.
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Telemetry {
  const { spans, links, recordKeys } = resolveOptions(
    'openTelemetry()',
    OPEN_TELEMETRY_OPTIONS,
    options,
  );
  if (spans === false) return { start: () => () => undefined };
  return {
    start: ({ events }) => {
      const writer = new SpanWriter({ policy: spans, links, recordKeys });
      return events.subscribe(
        (event) => {
          writer.write(event);
        },
        { wants: (type) => writer.wants(type) },
      );
    },
    around: (request) => OwnSpan.start(spans, request),
    ...(links && { traceOf: () => noteOf(trace.getActiveSpan()) }),
  };
}
