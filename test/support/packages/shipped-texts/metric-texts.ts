import { METRICS, prometheusName } from '../../internals/observability.js';
import { generatedPage, table } from './markdown.js';
import type { TextModule } from './option-texts.js';

const DOCS = 'docs/operations/metrics.md';

/** The page of all metrics: their names, attributes and the values of these. */
export function metricTexts(): TextModule[] {
  const metrics = METRICS.map((metric) => [
    `\`${metric.name}\``,
    `\`${prometheusName(metric)}\``,
    metric.kind,
    `\`${metric.unit}\``,
    metric.attributes.map(({ name }) => `\`${name}\``).join(', '),
    metric.description,
  ]);
  const all = new Set(METRICS.flatMap(({ attributes }) => attributes));
  const attributes = Array.from(all, ({ name, values }) => [
    `\`${name}\``,
    typeof values === 'string' ? values : values.map((value) => `\`${value}\``).join(', '),
  ]);
  const parts = [
    table(['OpenTelemetry', 'Prometheus', 'Kind', 'Unit', 'Attributes', 'Meaning'], metrics),
    table(['Attribute', 'Values'], attributes),
  ];
  return [generatedPage(DOCS, 'metrics', parts)];
}
