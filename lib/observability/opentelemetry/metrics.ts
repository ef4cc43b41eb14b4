import {
  createNoopMeter,
  diag,
  metrics,
  ValueType,
  type Attributes,
  type BatchObservableCallback,
  type Histogram,
  type Meter,
  type MeterProvider,
} from '@opentelemetry/api';
import type { DurationRecorder } from '../../core/meter/duration-recorder.js';
import type { TelemetrySource } from '../../core/telemetry/telemetry.js';
import { flag, type Defaulted, type Group } from '../../core/util/option-schema.js';
import {
  COMMAND,
  ERROR_TYPE,
  OPERATION,
  OUTCOME,
  SYSTEM,
  WAIT_END,
} from '../metrics/attributes.js';
import {
  DURATIONS,
  METRICS,
  type HistogramMetric,
  type NumberMetric,
} from '../metrics/catalogue.js';
import { MeterGroup } from '../metrics/meter-group.js';
import { SCOPE } from './scope.generated.js';

/** Options of the metrics of {@link openTelemetry}. */
export interface OpenTelemetryMetricsOptions {
  /** Whether metrics have the operation's name. Without it, the numbers of all operations add up. @defaultValue true */
  readonly operation?: boolean;
  /** Whether the durations of the store's commands are recorded. @defaultValue true */
  readonly storeCommands?: boolean;
}

type MetricsOptions = Defaulted<OpenTelemetryMetricsOptions>;

/** They are on, unless they are switched off. */
export const METRICS_OPTIONS: Group<OpenTelemetryMetricsOptions, MetricsOptions> = {
  fields: { operation: flag(true), storeCommands: flag(true) },
  canBeOff: true,
};

/** So that a process without requests exports its zeros, too, soon after the SDK has started. */
const CHECK_INTERVAL_MS = 1_000;

type Duration = keyof typeof DURATIONS;

/** What one provider has of this library. */
interface Instruments {
  readonly durations: Readonly<Record<Duration, Histogram>>;
  readonly remove: () => void;
}

/**
 * The export to the provider that is registered. It belongs to the process: of observations that several applications
 * make with equal attributes, an SDK keeps one. Its counts stay when all applications have stopped, because an SDK is
 * shut down after them, and reads once more.
 */
class MetricsExport {
  private readonly group = new MeterGroup();
  private provider: MeterProvider | undefined;
  private instruments: Instruments | undefined;
  private checks: NodeJS.Timeout | undefined;

  start({ meter }: TelemetrySource, options: MetricsOptions): () => void {
    // Another SDK has never seen them.
    if (this.group.isEmpty && metrics.getMeterProvider() !== this.provider) this.group.forget();
    this.group.add(meter, options);
    meter.recordTo(this.recorderOf(meter, options));
    this.current();
    this.checks ??= setInterval(() => this.current(), CHECK_INTERVAL_MS).unref();
    return () => {
      meter.recordTo(undefined);
      this.group.remove(meter);
      if (!this.group.isEmpty) return;
      clearInterval(this.checks);
      this.checks = undefined;
    };
  }

  private recorderOf(
    meter: TelemetrySource['meter'],
    { operation: isNamed, storeCommands }: MetricsOptions,
  ): DurationRecorder {
    const named = (operation: string) => (isNamed ? { [OPERATION.name]: operation } : undefined);
    let system: string | undefined;
    return {
      attempt: (operation, outcome, ms) => {
        this.record('attempt', ms, () => ({ ...named(operation), [OUTCOME.name]: outcome }));
      },
      wait: (operation, end, ms) => {
        this.record('wait', ms, () => ({ ...named(operation), [WAIT_END.name]: end }));
      },
      command: (command, errorType, ms) => {
        if (!storeCommands) return;
        this.record('command', ms, () => {
          system ??= meter.read().store.system;
          const failed = errorType !== undefined && { [ERROR_TYPE.name]: errorType };
          return { [COMMAND.name]: command, [SYSTEM.name]: system, ...failed };
        });
      },
    };
  }

  /** @param attributesOf - called only if there is an SDK. */
  private record(duration: Duration, ms: number, attributesOf: () => Attributes): void {
    try {
      this.current()?.durations[duration].record(ms / 1_000, attributesOf());
    } catch (error) {
      report(error);
    }
  }

  /** The instruments of the provider that is registered now: an SDK may start late, or again. */
  private current(): Instruments | undefined {
    const provider = metrics.getMeterProvider();
    if (provider === this.provider) return this.instruments;
    this.provider = provider;
    try {
      this.instruments?.remove();
      this.instruments = undefined;
      const meter = provider.getMeter(SCOPE.name, SCOPE.version);
      if (meter !== createNoopMeter()) this.instruments = instrumentsOf(meter, this.group);
    } catch (error) {
      report(error);
    }
    return this.instruments;
  }
}

const EXPORT = new MetricsExport();

/**
 * Exports what the meter has counted since the start of the process, whenever the SDK starts. Durations are recorded as
 * they are counted, if there is an SDK.
 * @returns a function that ends the export.
 */
export function startMetrics(source: TelemetrySource, options: MetricsOptions): () => void {
  return EXPORT.start(source, options);
}

function instrumentsOf(meter: Meter, group: MeterGroup): Instruments {
  const observed = METRICS.filter((metric) => metric.kind !== 'histogram').map((metric) => ({
    metric,
    instrument: observableOf(meter, metric),
  }));
  const instruments = observed.map(({ instrument }) => instrument);
  const observe: BatchObservableCallback = (result) => {
    for (const { metric, instrument } of observed) {
      for (const { attributes, value } of group.numbers(metric)) {
        result.observe(instrument, value, attributes);
      }
    }
  };
  meter.addBatchObservableCallback(observe, instruments);
  return {
    durations: {
      attempt: histogramOf(meter, DURATIONS.attempt),
      wait: histogramOf(meter, DURATIONS.wait),
      command: histogramOf(meter, DURATIONS.command),
    },
    remove: () => {
      meter.removeBatchObservableCallback(observe, instruments);
    },
  };
}

function observableOf(meter: Meter, { name, kind, unit, description }: NumberMetric) {
  const options = { unit, description, valueType: ValueType.INT };
  return kind === 'counter'
    ? meter.createObservableCounter(name, options)
    : meter.createObservableUpDownCounter(name, options);
}

function histogramOf(
  meter: Meter,
  { name, unit, description, bounds }: HistogramMetric,
): Histogram {
  const advice = { explicitBucketBoundaries: [...bounds] };
  return meter.createHistogram(name, { unit, description, advice });
}

function report(error: unknown): void {
  diag.error(`${SCOPE.name}: the export of metrics failed.`, error);
}
