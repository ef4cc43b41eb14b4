import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import type { IdempotencyEvent } from 'nestjs-idempotency';
import { EVENT_SEVERITY } from '../../support/internals/core.js';
import { projectRoot } from '../../support/project-root.js';
import {
  unknownIn,
  readRules,
  RULES_FILE,
  rulesIn,
  type Rule,
} from '../../support/prometheus/rules.js';

type EventType = IdempotencyEvent['type'];

const RULES = rulesIn(readRules());
const RUNBOOK = 'docs/operations/alerts.md';
const RUNBOOK_URL = `https://github.com/nestjs-idempotency/nestjs-idempotency/blob/main/${RUNBOOK}`;

/** What each section of the runbook answers. */
const PARTS = ['What it means', 'How to confirm', 'What to do', 'How it was provoked'];

/** The events of the breaker are a state, and this one has no metric: its requests find the store unavailable. */
const READ_OTHERWISE: Partial<Record<EventType, string>> = {
  breaker_opened: 'idempotency_store_breaker_status',
  reply_mismatched: 'store_unavailable',
};

function readersOf(type: EventType): Rule[] {
  const word = new RegExp(`\\b${READ_OTHERWISE[type] ?? type}\\b`);
  return RULES.filter(({ expr }) => word.test(expr));
}

const eventsOf = (severity: string) =>
  (Object.keys(EVENT_SEVERITY) as EventType[]).filter((type) => EVENT_SEVERITY[type] === severity);

const read = (file: string) => readFileSync(join(projectRoot, file), 'utf8');

/** By heading. */
function sectionsOf(page: string): Map<string, string> {
  const parts = read(page).split(/^## /m).slice(1);
  return new Map(
    parts.map((part) => [part.slice(0, part.indexOf('\n')), part.slice(part.indexOf('\n'))]),
  );
}

describe.each(RULES.map((rule) => [rule.alert, rule] as const))('%s', (alert, rule) => {
  it('reads series, labels and values that the metrics have', () => {
    expect(unknownIn(rule.expr)).toEqual([]);
  });

  it('names only labels that it has', () => {
    const { expr, annotations } = rule;
    const groupings = Array.from(expr.matchAll(/by \(([^)]*)\)/g), ([, labels]) => labels!);
    expect(new Set(groupings).size).toBe(1);
    const texts = Object.values(annotations).join(' ');
    const named = Array.from(texts.matchAll(/\$labels\.(\w+)/g), ([, label]) => label!);
    const labels = groupings[0]!.split(', ');
    expect(labels).toEqual(expect.arrayContaining(['job', ...named]));
  });

  it('has its section in the runbook', () => {
    expect(rule.annotations.runbook_url).toBe(`${RUNBOOK_URL}#${alert.toLowerCase()}`);
    const section = sectionsOf(RUNBOOK).get(alert) ?? '';
    const parts = Array.from(section.matchAll(/^\*\*(.+?)\.\*\*/gm), ([, part]) => part);
    expect(parts).toEqual(PARTS);
    expect(section).toContain(`\`${rule.labels.severity}\``);
  });

  it('is provoked by a test', () => {
    const [, link] = /\]\(\.\.\/\.\.\/(test\/.+)\)/.exec(read(RUNBOOK))!;
    expect(read(link!)).toContain(`'${alert} fires when `);
  });
});

describe('The rules', () => {
  it.each(eventsOf('critical'))('are critical where the event is: %s', (type) => {
    expect(readersOf(type).map(({ labels }) => labels.severity)).toContain('critical');
  });

  it.each(eventsOf('warning'))('read an event that is a warning: %s', (type) => {
    expect(readersOf(type)).toHaveLength(1);
  });

  it('become the spec of a PrometheusRule by the commands of the runbook', () => {
    const [, commands] = /^```sh\n(rules=[^]*?)^```$/m.exec(read(RUNBOOK))!;
    const folder = mkdtempSync(join(tmpdir(), 'idempotency-rules-'));
    try {
      const installed = join(folder, 'node_modules/nestjs-idempotency', RULES_FILE);
      cpSync(join(projectRoot, RULES_FILE), installed);
      execFileSync('sh', ['-eu', '-c', commands!], { cwd: folder });
      const file = readFileSync(join(folder, 'idempotency.prometheusrule.yml'), 'utf8');
      expect(parse(file)).toMatchObject({ kind: 'PrometheusRule', spec: readRules() });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('are the alerts of the runbook', () => {
    const alerts = [...sectionsOf(RUNBOOK).keys()].filter((name) => /^Idempotency\w+$/.test(name));
    expect(alerts).toEqual(RULES.map(({ alert }) => alert));
  });
});

describe('What reads the expressions', () => {
  it.each([
    ['sum(rate(idempotency_request_total[5m]))', 'idempotency_request_total'],
    ['idempotency_takeovers_total{operation="x"}', 'idempotency_takeovers_total{operation}'],
    ['idempotency_incidents_total{idempotency_incident_type=~"superseded|lost"}', '="lost"'],
    ['sum by (job, operation) (increase(idempotency_takeovers_total[5m]))', 'operation'],
    ['sum by (le) (rate(idempotency_wait_duration_seconds_sum[5m]))', 'le'],
    ['avg(idempotency_attempt_active)', 'avg'],
  ])('finds what the metrics do not have: %s', (expr, unknown) => {
    expect(unknownIn(expr)).toEqual([expect.stringContaining(unknown)]);
  });
});
