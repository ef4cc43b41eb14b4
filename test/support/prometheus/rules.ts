import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { projectRoot } from '../project-root.js';
import { METRICS, prometheusLabel, prometheusName } from '../internals/observability.js';

export interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
  readonly annotations: Readonly<Record<'summary' | 'description' | 'runbook_url', string>>;
}

export interface RuleFile {
  readonly groups: readonly { readonly name: string; readonly rules: readonly Rule[] }[];
}

export const RULES_FILE = 'docs/operations/idempotency.rules.yml';

/** The rules that the package ships. */
export function readRules(): RuleFile {
  return parse(readFileSync(join(projectRoot, RULES_FILE), 'utf8')) as RuleFile;
}

export function rulesIn({ groups }: RuleFile): Rule[] {
  return groups.flatMap(({ rules }) => rules);
}

/** By label: its values, or `undefined` where they are not known. */
type Labels = ReadonlyMap<string, readonly string[] | undefined>;

/** What Prometheus adds to every series. */
const TARGET_LABELS = [
  ['job', undefined],
  ['instance', undefined],
] as const;

/** Of PromQL: no others are used. */
const FUNCTIONS = new Set('and histogram_quantile increase max rate sum topk'.split(' '));

/** The series of all metrics, as a scrape has them, with their labels. */
const SERIES = new Map<string, Labels>(
  METRICS.flatMap((metric) => {
    const name = prometheusName(metric);
    const own = metric.attributes.map(
      ({ name: attribute, values }) =>
        [prometheusLabel(attribute), Array.isArray(values) ? values : undefined] as const,
    );
    const labels = new Map<string, readonly string[] | undefined>([...own, ...TARGET_LABELS]);
    if (metric.kind !== 'histogram') return [[name, labels] as const];
    return [
      [`${name}_bucket`, new Map([...labels, ['le', undefined]])] as const,
      [`${name}_sum`, labels] as const,
      [`${name}_count`, labels] as const,
    ];
  }),
);

/** What an expression names that the metrics do not have: series, labels, and values of labels. */
export function unknownIn(expr: string): string[] {
  const unknown: string[] = [];
  const labels = new Set<string>();
  const checkSeries = (name: string, matchers = '') => {
    const known = SERIES.get(name);
    if (known === undefined) {
      unknown.push(name);
      return;
    }
    for (const label of known.keys()) labels.add(label);
    for (const [, label, value] of matchers.matchAll(/(\w+)\s*[!=]=?~?\s*"([^"]*)"/g)) {
      if (!known.has(label!)) unknown.push(`${name}{${label}}`);
      const values = known.get(label!);
      const named = /^(?:\$\w+|)$/.test(value!) ? [] : value!.split('|');
      for (const one of named) {
        if (values?.includes(one) === false) unknown.push(`${label}="${one}"`);
      }
    }
  };
  const withoutSelectors = expr.replace(
    /(\w+)\{([^}]*)\}/g,
    (_, name: string, matchers: string) => {
      checkSeries(name, matchers);
      return '';
    },
  );
  const groupings: string[] = [];
  const rest = withoutSelectors
    .replace(/\bby \(([^)]*)\)/g, (_, grouping: string) => {
      groupings.push(...grouping.split(/,\s*/));
      return '';
    })
    .replace(/\[[^\]]*\]/g, '');
  for (const [name] of rest.matchAll(/[a-z_]\w*/gi)) {
    if (!FUNCTIONS.has(name)) checkSeries(name);
  }
  return [...unknown, ...groupings.filter((label) => !labels.has(label))];
}
