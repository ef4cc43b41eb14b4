import { register, type Metric as PromMetric, type Registry } from 'prom-client';
import { METRICS } from '../../core/meter/instruments.js';
import type { Telemetry } from '../../core/telemetry/telemetry.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import {
  of,
  resolveOptions,
  type Defaulted,
  type Schema,
} from '../../core/options/option-schema.js';
import { MeterGroup, type ReadMeter } from '../metrics/meter-group.js';
import { Collector, prometheusName } from './collector.js';

/** What is used of a registry of prom-client. */
export type UsedRegistry = Pick<
  Registry,
  'registerMetric' | 'getSingleMetric' | 'removeSingleMetric'
>;

const METHODS: readonly (keyof UsedRegistry)[] = [
  'registerMetric',
  'getSingleMetric',
  'removeSingleMetric',
];

/** Options of {@link prometheus}. */
export interface PrometheusOptions {
  /** A `Registry` of prom-client. @defaultValue prom-client's `register` */
  readonly registry?: UsedRegistry;
}

export const PROMETHEUS_OPTIONS: Schema<PrometheusOptions, Defaulted<PrometheusOptions>> = {
  registry: of('a Registry of prom-client', isRegistry, {
    default: register,
    defaultText: "prom-client's `register`",
  }),
};

/**
 * Adds the metrics of idempotent operations to a registry of prom-client, as long as the application runs. They are
 * read at each scrape, and cost requests nothing.
 *
 * Applications that run in one process may share a registry: their numbers add up.
 * @throws {@link IdempotencyOptionsError} for an invalid option.
 * @example
 * ```ts
 * IdempotencyModule.forRoot({ store: redisStore({ url }), telemetry: prometheus() })
 * ```
 */
export function prometheus(options: PrometheusOptions = {}): Telemetry {
  const { registry } = resolveOptions('prometheus()', PROMETHEUS_OPTIONS, options);
  return {
    start: ({ meter }) => {
      const registered = RegisteredMetrics.of(registry);
      registered.add(meter);
      return () => {
        registered.remove(meter);
      };
    },
  };
}

/** What a registry has of this library. */
class RegisteredMetrics {
  private static readonly all = new WeakMap<UsedRegistry, RegisteredMetrics>();

  static of(registry: UsedRegistry): RegisteredMetrics {
    let registered = this.all.get(registry);
    if (registered === undefined) {
      registered = new RegisteredMetrics(registry);
      this.all.set(registry, registered);
    }
    return registered;
  }

  private readonly group = new MeterGroup();
  /** By the names under which they are registered. */
  private readonly collectors = new Map<string, Collector>();

  private constructor(private readonly registry: UsedRegistry) {}

  /** @throws {@link IdempotencyOptionsError} if the registry has another metric with the name of one of these. */
  add(meter: ReadMeter): void {
    // All, or those that are missing since `registry.clear()`.
    const missing = METRICS.filter((metric) => !this.has(prometheusName(metric)));
    for (const metric of missing) this.checkName(prometheusName(metric));
    for (const metric of missing) this.register(new Collector(metric, this.group));
    this.group.add(meter, { operation: true });
  }

  remove(meter: ReadMeter): void {
    this.group.remove(meter);
    if (!this.group.isEmpty) return;
    this.group.forget();
    for (const name of this.collectors.keys()) {
      if (this.has(name)) this.registry.removeSingleMetric(name);
    }
    this.collectors.clear();
  }

  private has(name: string): boolean {
    const collector: unknown = this.collectors.get(name);
    return collector !== undefined && this.registry.getSingleMetric(name) === collector;
  }

  private checkName(name: string): void {
    if (this.registry.getSingleMetric(name) === undefined) return;
    throw new IdempotencyOptionsError(
      `prometheus(): The registry has another metric named "${name}". Pass a registry of its own, or load nestjs-idempotency once.`,
    );
  }

  private register(collector: Collector): void {
    this.collectors.set(collector.name, collector);
    this.registry.registerMetric(collector as unknown as PromMetric);
  }
}

function isRegistry(value: unknown): boolean {
  const registry = value as Partial<UsedRegistry> | null | undefined;
  return METHODS.every((name) => typeof registry?.[name] === 'function');
}
