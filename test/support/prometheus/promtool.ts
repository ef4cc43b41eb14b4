import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe } from '@jest/globals';
import type { RuleFile } from './rules.js';
import { findPromtool } from './find-promtool.js';

const run = promisify(execFile);

/** A run may print each failed expectation with all of its series. */
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;

/** For tests of rules; `npm test` has reported that promtool is missing. */
export const describeWithPromtool: typeof describe.skip =
  findPromtool() === undefined ? describe.skip : describe;

/** Series by their names and labels, with a value for each interval in promtool's notation. */
export type InputSeries = Readonly<Record<string, string>>;

export type Labels = Readonly<Record<string, string>>;

/** What fires at a time, such as `20m`. */
export interface Moment {
  readonly time: string;
  /** Only alerts of this name. @defaultValue all alerts */
  readonly alert?: string;
  /** Which alerts have fired for as long before. @defaultValue the alerts that fire at this time */
  readonly within?: string;
  /** @defaultValue firing */
  readonly state?: 'pending' | 'firing';
  /** With the names and severities of the alerts. */
  readonly alerts: readonly Labels[];
}

export interface RuleTest {
  readonly name: string;
  /** @defaultValue `1m` */
  readonly interval?: string;
  readonly series: InputSeries;
  /** Each of these has a value at this time. */
  readonly queries?: { readonly time: string; readonly exprs: readonly string[] };
  readonly moments: readonly Moment[];
  /** The annotations of an alert at a time, by its labels. */
  readonly annotations?: {
    readonly time: string;
    readonly labels: Labels;
    readonly expected: Labels;
  };
}

/**
 * `promtool check rules`: whether each expression and template can be parsed.
 * @returns its complaints; `''` if it has none.
 */
export function checkRules(rules: RuleFile): Promise<string> {
  return promtool(['check', 'rules', 'rules.yml'], { 'rules.yml': rules });
}

/**
 * `promtool test rules`: evaluates the rules every minute on these series.
 * @returns its complaints; `''` if all expectations are met.
 */
export function testRules(rules: RuleFile, tests: readonly RuleTest[]): Promise<string> {
  return promtool(['test', 'rules', 'tests.yml'], {
    'rules.yml': rules,
    'tests.yml': {
      rule_files: ['rules.yml'],
      evaluation_interval: '1m',
      tests: tests.map(asTestGroup),
    },
  });
}

function asTestGroup({ interval = '1m', series, moments, queries, annotations, name }: RuleTest) {
  const { alertname, ...others } = annotations?.labels ?? {};
  return {
    name,
    interval,
    input_series: Object.entries(series).map(([one, values]) => ({ series: one, values })),
    promql_expr_test: [
      ...moments.map(asExpressionTest),
      ...(queries?.exprs ?? []).map((expr) => ({
        expr: `count(${expr}) > bool 0`,
        eval_time: queries?.time,
        exp_samples: [{ labels: '{}', value: 1 }],
      })),
    ],
    ...(annotations && {
      alert_rule_test: [
        {
          eval_time: annotations.time,
          alertname,
          exp_alerts: [{ exp_labels: others, exp_annotations: annotations.expected }],
        },
      ],
    }),
  };
}

/** Prometheus keeps the state of alerts in a series of its own. */
function asExpressionTest({ time, alert, within, state = 'firing', alerts }: Moment) {
  const series = seriesName('ALERTS', { ...(alert && { alertname: alert }), alertstate: state });
  return {
    expr: within === undefined ? series : `max_over_time(${series}[${within}])`,
    eval_time: time,
    exp_samples: alerts.map((labels) => ({
      labels: seriesName(within === undefined ? 'ALERTS' : '', { alertstate: state, ...labels }),
      value: 1,
    })),
  };
}

/** As Prometheus writes a series. */
export function seriesName(metric: string, labels: Labels): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}=${JSON.stringify(value)}`);
  return `${metric}{${pairs.join(',')}}`;
}

/** Files in JSON, which is YAML, too. */
async function promtool(
  args: readonly string[],
  files: Readonly<Record<string, unknown>>,
): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'idempotency-promtool-'));
  try {
    for (const [name, content] of Object.entries(files)) {
      writeFileSync(join(folder, name), JSON.stringify(content));
    }
    const options = { cwd: folder, maxBuffer: MAX_OUTPUT_BYTES };
    await run(findPromtool()!, args, options);
    return '';
  } catch (error) {
    const { code, stdout, stderr } = error as { code?: unknown; stdout: string; stderr: string };
    // Anything but promtool's own verdict is a failure of the test itself.
    if (typeof code !== 'number') throw error;
    return stdout + stderr || 'It failed.';
  } finally {
    rmSync(folder, { recursive: true });
  }
}
