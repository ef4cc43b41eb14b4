import { metrics } from '@opentelemetry/api';
import { DataPointType, MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics';

class OnDemandReader extends MetricReader {
  protected override onForceFlush(): Promise<void> {
    return Promise.resolve();
  }

  protected override onShutdown(): Promise<void> {
    return Promise.resolve();
  }
}

/** A series as the SDK has it. */
export interface OtelSeries {
  readonly name: string;
  readonly scope: string;
  readonly unit: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly value: number | { readonly count: number; readonly sum?: number };
}

/** An SDK for metrics that is read on demand. */
export class TestProvider {
  /** The SDK keeps 2,000 series per metric, by default. */
  private readonly reader = new OnDemandReader({ cardinalitySelector: () => 100_000 });
  private readonly provider = new MeterProvider({ readers: [this.reader] });

  /** Makes it the global one, in place of another. */
  register(): this {
    metrics.disable();
    metrics.setGlobalMeterProvider(this.provider);
    return this;
  }

  async read(): Promise<OtelSeries[]> {
    const { resourceMetrics, errors } = await this.reader.collect();
    if (errors.length > 0) throw new AggregateError(errors, 'The SDK could not read all metrics.');
    return resourceMetrics.scopeMetrics.flatMap(({ scope, metrics: all }) =>
      all.flatMap(({ descriptor: { name, unit }, dataPoints, dataPointType }) =>
        dataPoints.map(({ attributes, value }) => {
          const series = { name, unit, scope: scope.name, attributes };
          if (dataPointType !== DataPointType.HISTOGRAM) return { ...series, value };
          const { count, sum, buckets } = value as any;
          return { ...series, value: { count, sum, ...buckets } };
        }),
      ),
    );
  }

  async shutdown(): Promise<void> {
    await this.provider.shutdown();
  }
}
