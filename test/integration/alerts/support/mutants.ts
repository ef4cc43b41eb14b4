import type { Rule } from '../../../support/prometheus/rules.js';

/** A rule with one planted mistake. */
export interface Mutant {
  readonly mistake: string;
  readonly rule: Rule;
}

/** All mistakes of these kinds: thresholds, ranges, matchers, labels, the conjunction, "for" and the severity. */
export function mutantsOf(rule: Rule): Mutant[] {
  const { expr } = rule;
  const exprs = [...thresholds(expr), ...ranges(expr), ...matchers(expr), ...groupings(expr)];
  const conjunction = replaced(expr, /\band\b/g, () => ['or']);
  return [
    ...[...exprs, ...conjunction].map(({ mistake, text }) => ({
      mistake,
      rule: { ...rule, expr: text },
    })),
    ...durations(rule),
    ...severities(rule),
  ];
}

interface Replaced {
  readonly mistake: string;
  readonly text: string;
}

/** One text for each match and each of its replacements. */
function replaced(
  text: string,
  pattern: RegExp,
  replacements: (match: RegExpExecArray) => readonly string[],
): Replaced[] {
  return Array.from(text.matchAll(pattern)).flatMap((match, index) =>
    replacements(match).map((replacement) => ({
      mistake: `${match[0]} → ${replacement} (${index + 1})`,
      text: text.slice(0, match.index) + replacement + text.slice(match.index + match[0].length),
    })),
  );
}

function thresholds(expr: string): Replaced[] {
  return replaced(expr, /(>=?) ([\d.]+)/g, ([, comparison, text]) => {
    const value = Number(text);
    if (value === 0) return ['>= 0', '> 1'];
    const values = Number.isInteger(value) ? [value - 1, value + 1] : [value / 2, value * 2];
    return values.map((other) => `${comparison} ${other}`);
  });
}

function ranges(expr: string): Replaced[] {
  return replaced(expr, /\[(\d+)m\]/g, ([, minutes]) => [
    `[${Number(minutes) * 30}s]`,
    `[${Number(minutes) * 2}m]`,
  ]);
}

function matchers(expr: string): Replaced[] {
  return replaced(expr, /=~?"([^"]+)"/g, ([, text]) => {
    const values = text!.split('|');
    const fewer = values.map((value) => values.filter((other) => other !== value).join('|'));
    return [...fewer.map((some) => `=~"${some === '' ? 'none' : some}"`), '=~".+"'];
  });
}

function groupings(expr: string): Replaced[] {
  const pattern = /by \(([^)]*)\)/g;
  const others = (labels: readonly string[]) => [
    ...labels.map((label) => labels.filter((other) => other !== label)),
    ...(labels.includes('instance') ? [] : [[...labels, 'instance']]),
  ];
  const split = (text: string) => text.split(', ');
  const written = (labels: readonly string[]) => `by (${labels.join(', ')})`;
  const everywhere = others(split(/by \(([^)]*)\)/.exec(expr)![1]!)).map((labels) => ({
    mistake: `everywhere ${written(labels)}`,
    text: expr.replace(pattern, written(labels)),
  }));
  const isOnce = Array.from(expr.matchAll(pattern)).length === 1;
  const one = replaced(expr, pattern, ([, text]) => others(split(text!)).map(written));
  return [...everywhere, ...(isOnce ? [] : one)];
}

function durations(rule: Rule): Mutant[] {
  const { for: duration, ...others } = rule;
  if (duration === undefined) {
    return [{ mistake: 'for: 1m', rule: { ...rule, for: '1m' } }];
  }
  const minutes = Number.parseInt(duration, 10);
  const values = new Set([minutes / 2, minutes - 1, minutes + 1, minutes * 2]);
  return [
    { mistake: 'no for', rule: others },
    ...Array.from(values, (value) => ({
      mistake: `for: ${value * 60}s`,
      rule: { ...rule, for: `${value * 60}s` },
    })),
  ];
}

function severities(rule: Rule): Mutant[] {
  const severity = rule.labels.severity === 'critical' ? 'warning' : 'critical';
  return [{ mistake: `severity: ${severity}`, rule: { ...rule, labels: { severity } } }];
}
