import type { HistogramReading, MeterReading } from '../../core/meter/meter-reading.js';
import { OPERATION } from './attributes.js';
import {
  METRICS,
  type Described,
  type HistogramMetric,
  type Metric,
  type NumberMetric,
  type Sample,
} from './catalogue.js';

/** An `IdempotencyMeter`. */
export interface ReadMeter {
  read(): MeterReading;
}

interface ExportOptions {
  /** Whether samples have the operation's name. Without it, the numbers of all operations add up. */
  readonly operation: boolean;
}

interface Exported extends ExportOptions {
  readonly reading: MeterReading;
}

type Add<Value> = (one: Value, other: Value) => Value;

/**
 * The meters that one exporter reads: those of several applications in this process, or of several modules. Their
 * numbers add up. The counts of a meter that leaves stay, because a counter must not decrease.
 */
export class MeterGroup {
  private readonly members = new Map<ReadMeter, ExportOptions>();
  private readonly kept = new Map<string, readonly Sample<unknown>[]>();
  private current: readonly Exported[] | undefined;

  get isEmpty(): boolean {
    return this.members.size === 0;
  }

  add(meter: ReadMeter, options: ExportOptions): void {
    this.members.set(meter, options);
    this.current = undefined;
  }

  remove(meter: ReadMeter): void {
    const options = this.members.get(meter);
    if (options === undefined) return;
    this.members.delete(meter);
    this.current = undefined;
    this.keep({ reading: meter.read(), ...options });
  }

  /** Forgets the counts of meters that have left. */
  forget(): void {
    this.kept.clear();
  }

  numbers(metric: NumberMetric): readonly Sample<number>[] {
    return this.total(metric, addNumbers, this.readings());
  }

  histograms(metric: HistogramMetric): readonly Sample<HistogramReading>[] {
    return this.total(metric, addHistograms, this.readings());
  }

  private keep(last: Exported): void {
    for (const metric of METRICS) {
      if (metric.kind === 'counter') {
        this.kept.set(metric.name, this.total(metric, addNumbers, [last]));
      } else if (metric.kind === 'histogram') {
        this.kept.set(metric.name, this.total(metric, addHistograms, [last]));
      }
    }
  }

  private total<Value>(
    metric: Described<Metric['kind'], Value>,
    add: Add<Value>,
    readings: readonly Exported[],
  ): readonly Sample<Value>[] {
    const kept = (this.kept.get(metric.name) ?? []) as readonly Sample<Value>[];
    const all = readings.flatMap(({ reading, operation }) => {
      const samples = metric.read(reading);
      return operation ? samples : samples.map(withoutOperation);
    });
    return sums([...kept, ...all], add);
  }

  /** One reading for all metrics of a scrape, which are read in the same turn: so they agree with each other. */
  private readings(): readonly Exported[] {
    if (this.current === undefined) {
      this.current = Array.from(this.members, ([meter, options]) => ({
        reading: meter.read(),
        ...options,
      }));
      // Not queueMicrotask(), which fake timers of tests replace.
      void Promise.resolve().then(() => {
        this.current = undefined;
      });
    }
    return this.current;
  }
}

function withoutOperation<Value>({ attributes, value }: Sample<Value>): Sample<Value> {
  const { [OPERATION.name]: _, ...others } = attributes;
  return { attributes: others, value };
}

/** One sample for each combination of attributes. */
function sums<Value>(samples: readonly Sample<Value>[], add: Add<Value>): Sample<Value>[] {
  const byAttributes = new Map<string, Sample<Value>>();
  for (const sample of samples) {
    const place = JSON.stringify(sample.attributes);
    const sum = byAttributes.get(place);
    byAttributes.set(
      place,
      sum === undefined ? sample : { ...sample, value: add(sum.value, sample.value) },
    );
  }
  return [...byAttributes.values()];
}

function addNumbers(one: number, other: number): number {
  return one + other;
}

/** Those of one metric have the same bounds. */
function addHistograms(one: HistogramReading, other: HistogramReading): HistogramReading {
  return {
    bounds: one.bounds,
    counts: one.counts.map((count, bucket) => count + (other.counts[bucket] ?? 0)),
    count: one.count + other.count,
    sum: one.sum + other.sum,
  };
}
