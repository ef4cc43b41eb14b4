import { afterAll, expect, it, jest } from '@jest/globals';
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
import { mutantsOf, type Mutant } from './support/mutants.js';

jest.setTimeout(120_000);

const RULES = readRules();
const TABLE = rulesIn(RULES).map((rule) => [rule.alert, rule] as const);

const fileOf = (...rules: readonly Rule[]): RuleFile => ({ groups: [{ name: 'tested', rules }] });

/** What `alert` does on its cases; under each of these names. */
function testsOf(alert: string, names: readonly string[] = [alert]): RuleTest[] {
  const { severity, cases } = CASES[alert]!;
  const momentsOf = ({ firing }: AlertCase): Omit<Moment, 'alert'>[] => {
    if (firing === 'never') return [{ time: `${MINUTES}m`, within: `${MINUTES}m`, alerts: [] }];
    return Object.entries(firing).map(([minute, alerts]) => ({ time: `${minute}m`, alerts }));
  };
  return cases.map((one) => ({
    name: one.name,
    series: one.series,
    moments: names.flatMap((name) =>
      momentsOf(one).map((moment) => ({
        ...moment,
        alert: name,
        alerts: moment.alerts.map((labels) => ({ alertname: name, severity, ...labels })),
      })),
    ),
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

/** Those mistakes with which the rule passes all cases. Promtool gets all at once, each as an alert of its own name. */
async function survivorsOf(alert: string, mutants: readonly Mutant[]): Promise<string[]> {
  const named = mutants.map(({ mistake, rule }, index) => ({
    mistake,
    rule: { ...rule, alert: `Mistake${index}` },
  }));
  const names = named.map(({ rule }) => rule.alert);
  const rules = fileOf(...named.map(({ rule }) => rule));
  const complaints = await testRules(rules, testsOf(alert, names));
  const failed = new Set(
    Array.from(complaints.matchAll(/expr: ".*?alertname=\\"(\w+)\\"/g), ([, name]) => name),
  );
  return named.flatMap(({ mistake, rule }) => (failed.has(rule.alert) ? [] : [mistake]));
}

const found: string[] = [];
afterAll(() => {
  console.log(found.join('\n'));
});

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

  it('passes without a mistake only', async () => {
    const mutants = mutantsOf(rule);
    const survivors = await survivorsOf(alert, [{ mistake: 'none', rule }, ...mutants]);
    found.push(`${alert}: ${mutants.length} mistakes, ${survivors.length - 1} not found`);
    expect(survivors).toEqual(['none']);
  });
});
