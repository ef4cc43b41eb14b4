import { expect, it, jest } from '@jest/globals';
import {
  checkRules,
  describeWithPromtool,
  testRules,
  type Labels,
  type Moment,
  type RuleTest,
} from '../../support/prometheus/promtool.js';
import { queriesOf, readDashboard } from '../../support/prometheus/dashboard.js';
import { readRules, rulesIn, type Rule, type RuleFile } from '../../support/prometheus/rules.js';
import { CASES, MINUTES, type AlertCase } from './support/cases.js';

jest.setTimeout(120_000);

const RULES = readRules();
const TABLE = rulesIn(RULES).map((rule) => [rule.alert, rule] as const);

const fileOf = (...rules: readonly Rule[]): RuleFile => ({ groups: [{ name: 'tested', rules }] });

/** What `alert` does on its cases. */
function testsOf(alert: string): RuleTest[] {
  const { severity, cases } = CASES[alert]!;
  const momentsOf = ({ firing }: AlertCase): Omit<Moment, 'alert'>[] => {
    if (firing === 'never') return [{ time: `${MINUTES}m`, within: `${MINUTES}m`, alerts: [] }];
    return Object.entries(firing).map(([minute, alerts]) => ({ time: `${minute}m`, alerts }));
  };
  return cases.map((one) => ({
    name: one.name,
    series: one.series,
    moments: momentsOf(one).map((moment) => ({
      ...moment,
      alert,
      alerts: moment.alerts.map((labels) => ({ alertname: alert, severity, ...labels })),
    })),
  }));
}

/** The annotations of the first alert that fires. */
function annotationTest({ alert, annotations }: Rule): RuleTest {
  const { severity, cases, value = '' } = CASES[alert]!;
  const [{ name, series }, minute, labels] = cases.flatMap(firstFiring)[0]!;
  const write = (template: string) =>
    template
      .replace('{{ $value | humanizePercentage }}', value)
      .replaceAll(/{{ \$labels\.(\w+) }}/g, (_, label: string) => labels[label] ?? 'no such label');
  const expected = Object.fromEntries(
    Object.entries(annotations).map(([annotation, template]) => [annotation, write(template)]),
  );
  return {
    name,
    series,
    moments: [],
    annotations: {
      time: `${minute}m`,
      labels: { alertname: alert, severity, ...labels },
      expected,
    },
  };
}

function firstFiring(one: AlertCase): (readonly [AlertCase, string, Labels])[] {
  return Object.entries(one.firing === 'never' ? {} : one.firing)
    .filter(([, alerts]) => alerts.length > 0)
    .map(([minute, alerts]) => [one, minute, alerts[0]!] as const)
    .slice(0, 1);
}

describeWithPromtool('promtool', () => {
  it('accepts the rules', async () => {
    expect(await checkRules(RULES)).toBe('');
  });

  it('accepts every query of the dashboard', async () => {
    const queries = queriesOf(readDashboard());
    const annotations = { summary: '', description: '', runbook_url: '' };
    const rules = queries.map(({ expr }, index) => ({
      alert: `Query${index}`,
      expr,
      labels: { severity: 'none' },
      annotations,
    }));
    expect(await checkRules(fileOf(...rules))).toBe('');
  });

  it('rejects an expression that it cannot parse', async () => {
    const [[, rule]] = TABLE as [(typeof TABLE)[number]];
    const complaints = await checkRules(fileOf({ ...rule, expr: `${rule.expr} and` }));
    expect(complaints).toContain('could not parse expression');
  });
});

describeWithPromtool.each(TABLE)('%s', (alert, rule) => {
  it('fires when it should, and is quiet just below', async () => {
    const tests = testsOf(alert);
    const moments = tests.flatMap((test) => test.moments);
    expect(moments.some(({ alerts }) => alerts.length > 0)).toBe(true);
    expect(moments.some(({ alerts }) => alerts.length === 0)).toBe(true);
    expect(await testRules(fileOf(rule), tests)).toBe('');
  });

  it('explains itself', async () => {
    expect(await testRules(fileOf(rule), [annotationTest(rule)])).toBe('');
  });
});
