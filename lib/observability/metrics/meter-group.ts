import { OPERATION } from '../../core/meter/attributes.js';
import {
  METRICS,
  type Metric,
  type Sample,
  type SampleValue,
} from '../../core/meter/instruments.js';
import type { MeterReading } from '../../core/meter/meter-reading.js';

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

/**
 * The meters that one exporter reads: those of several applications in this process, or of several modules. Their
 * numbers add up. The counts of a meter that leaves stay, because a counter must not decrease.
 */
export class MeterGroup {
  private readonly members = new Map<ReadMeter, ExportOptions>();
  private readonly kept = new Map<string, readonly Sample[]>();
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

  samples(metric: Metric): readonly Sample[] {
    return this.total(metric, this.readings());
  }

  private keep(last: Exported): void {
    for (const metric of METRICS) {
      if (metric.kind !== 'updowncounter') this.kept.set(metric.name, this.total(metric, [last]));
    }
  }

  private total(metric: Metric, readings: readonly Exported[]): readonly Sample[] {
    const all = readings.flatMap(({ reading, operation }) => {
      const samples = metric.read(reading);
      if (operation) return samples;
      return samples.map(({ attributes, value }) => ({ attributes: unnamed(attributes), value }));
    });
    return sums([...(this.kept.get(metric.name) ?? []), ...all]);
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

/** All but the operation's name. */
export function unnamed(attributes: Sample['attributes']): Sample['attributes'] {
  const { [OPERATION.name]: _, ...others } = attributes;
  return others;
}

/** One sample for each combination of attributes. */
function sums(samples: readonly Sample[]): Sample[] {
  const byAttributes = new Map<string, Sample>();
  for (const sample of samples) {
    const place = JSON.stringify(sample.attributes);
    const sum = byAttributes.get(place);
    byAttributes.set(
      place,
      sum === undefined ? sample : { ...sample, value: added(sum.value, sample.value) },
    );
  }
  return [...byAttributes.values()];
}

/** Two values of one metric: its histograms have the same bounds. */
function added(one: SampleValue, other: SampleValue): SampleValue {
  if (typeof one === 'number' || typeof other === 'number') return Number(one) + Number(other);
  return {
    bounds: one.bounds,
    counts: one.counts.map((count, bucket) => count + (other.counts[bucket] ?? 0)),
    count: one.count + other.count,
    sum: one.sum + other.sum,
  };
}
