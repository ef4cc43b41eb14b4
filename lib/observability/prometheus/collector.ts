import type { Metric, Sample } from '../../core/meter/instruments.js';
import type { HistogramReading } from '../../core/meter/meter-reading.js';
import type { MeterGroup } from '../metrics/meter-group.js';

type Labels = Readonly<Record<string, string | number>>;

interface Series {
  /** The metric's, if omitted. */
  readonly metricName?: string;
  readonly labels: Labels;
  readonly value: number;
}

/**
 * A metric as a registry of prom-client reads it. It is no instance of prom-client's classes, whose histograms take
 * single values and not the counts of buckets.
 */
export class Collector {
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  /** Of the workers of a cluster. */
  readonly aggregator = 'sum';
  /** A registry for OpenMetrics removes the suffix of counters before each reading. */
  name: string;

  constructor(
    private readonly metric: Metric,
    private readonly group: MeterGroup,
  ) {
    const { kind, description } = metric;
    this.name = prometheusName(metric);
    this.help = description;
    this.type = kind === 'updowncounter' ? 'gauge' : kind;
  }

  get(): Promise<object> {
    const { name, help, type, aggregator } = this;
    // It may be another format's next time.
    this.name = prometheusName(this.metric);
    return Promise.resolve({ name, help, type, aggregator, values: this.series() });
  }

  /** Called by `registry.resetMetrics()`. The counts are the meter's, which nothing resets. */
  reset(): void {
    // Nothing is kept here.
  }

  private series(): Series[] {
    return this.group.samples(this.metric).flatMap(({ attributes, value }) => {
      const labels = labelsOf(attributes);
      return typeof value === 'number' ? { labels, value } : seriesOf(this.name, labels, value);
    });
  }
}

/** Units that stand in names. */
const UNITS: Readonly<Record<string, string>> = { s: '_seconds', By: '_bytes' };

/** As the translation of OTLP for Prometheus names it. */
export function prometheusName({ name, kind, unit }: Metric): string {
  const suffix = `${UNITS[unit] ?? ''}${kind === 'counter' ? '_total' : ''}`;
  return `${prometheusLabel(name)}${suffix}`;
}

export function prometheusLabel(attribute: string): string {
  return attribute.replaceAll('.', '_');
}

function labelsOf(attributes: Sample['attributes']): Labels {
  return Object.fromEntries(
    Object.entries(attributes).map(([attribute, value]) => [prometheusLabel(attribute), value]),
  );
}

/** Its buckets are cumulative. */
function seriesOf(
  name: string,
  labels: Labels,
  { bounds, counts, count, sum }: HistogramReading,
): Series[] {
  let below = 0;
  const buckets = counts.map((number, bucket) => {
    below += number;
    const le = bounds[bucket] ?? '+Inf';
    return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: below };
  });
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: count },
  ];
}
