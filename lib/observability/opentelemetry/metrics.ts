import {
  createNoopMeter,
  diag,
  metrics,
  ValueType,
  type BatchObservableCallback,
  type Histogram,
  type Meter,
  type MeterProvider,
  type Observable,
} from '@opentelemetry/api';
import type { DurationRecorder } from '../../core/meter/idempotency-meter.js';
import { METRICS, PROCESS_INSTRUMENTS, type Metric } from '../../core/meter/instruments.js';
import type { TelemetrySource } from '../../core/telemetry/telemetry.js';
import { flag, type Defaulted, type Group } from '../../core/options/option-schema.js';
import { MeterGroup, unnamed } from '../metrics/meter-group.js';
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

/** What one provider has of this library. */
interface Instruments {
  /** By the names of their metrics. */
  readonly histograms: ReadonlyMap<string, Histogram>;
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
    meter.recordTo(this.recorderFor(options));
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

  private recorderFor({ operation, storeCommands }: MetricsOptions): DurationRecorder {
    return (metric, ms, attributes) => {
      if (metric === PROCESS_INSTRUMENTS.commands.name && !storeCommands) return;
      try {
        const histogram = this.current()?.histograms.get(metric);
        histogram?.record(ms / 1_000, operation ? attributes : unnamed(attributes));
      } catch (error) {
        report(error);
      }
    };
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
  const numbers = METRICS.filter(({ kind }) => kind !== 'histogram');
  const observed = new Map(numbers.map((metric) => [metric, observableOf(meter, metric)]));
  const observables = [...observed.values()];
  const observe: BatchObservableCallback = (result) => {
    for (const [metric, observable] of observed) {
      for (const { attributes, value } of group.samples(metric)) {
        result.observe(observable, value as number, attributes);
      }
    }
  };
  meter.addBatchObservableCallback(observe, observables);
  const histograms = METRICS.filter(({ kind }) => kind === 'histogram');
  return {
    histograms: new Map(histograms.map((metric) => [metric.name, histogramOf(meter, metric)])),
    remove: () => {
      meter.removeBatchObservableCallback(observe, observables);
    },
  };
}

function observableOf(meter: Meter, { name, kind, unit, description }: Metric): Observable {
  const options = { unit, description, valueType: ValueType.INT };
  return kind === 'counter'
    ? meter.createObservableCounter(name, options)
    : meter.createObservableUpDownCounter(name, options);
}

function histogramOf(meter: Meter, { name, unit, description, bounds = [] }: Metric): Histogram {
  const advice = { explicitBucketBoundaries: [...bounds] };
  return meter.createHistogram(name, { unit, description, advice });
}

function report(error: unknown): void {
  diag.error(`${SCOPE.name}: the export of metrics failed.`, error);
}
