import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { METRICS, prometheusName } from '../../internals/observability.js';
import { projectRoot } from '../../project-root.js';
import type { TextModule } from './option-texts.js';

const DOCS = 'docs/operations/metrics.md';
const MARKERS = ['<!-- metrics: npm run texts -->', '<!-- end of metrics -->'] as const;

/** The page of all metrics: their names, attributes and the values of these. */
export function metricTexts(): TextModule[] {
  const page = readFileSync(join(projectRoot, DOCS), 'utf8');
  const [before, , after] = page.split(new RegExp(MARKERS.join('|')));
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
  const body = `<!-- prettier-ignore-start -->\n\n${parts.join('\n\n')}\n\n<!-- prettier-ignore-end -->`;
  const source = `${before ?? ''}${MARKERS[0]}\n\n${body}\n\n${MARKERS[1]}${after ?? ''}`;
  return [{ path: DOCS, source }];
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n');
}
