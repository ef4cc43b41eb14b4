import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import type { IdempotencyEvent } from 'nestjs-idempotency';
import { parse } from 'yaml';
import { EVENT_SEVERITY } from '../../support/internals/core.js';
import { METRICS, prometheusName } from '../../support/internals/observability.js';
import { projectRoot } from '../../support/project-root.js';
import { type Panel, queriesOf, readDashboard } from '../../support/prometheus/dashboard.js';
import {
  readRules,
  type Rule,
  RULES_FILE,
  rulesIn,
  unknownIn,
} from '../../support/prometheus/rules.js';

const DASHBOARD = readDashboard();
const { panels, templating } = DASHBOARD;
const SOURCE = { type: 'prometheus', uid: '${datasource}' };
const GRID_COLUMNS = 24;

/** The rows, each with the panels below it. */
function rowsOf(all: readonly Panel[]): (readonly [string, readonly Panel[]])[] {
  const starts = all.flatMap(({ type }, index) => (type === 'row' ? [index] : []));
  return starts.map((start, index) => [all[start]!.title, all.slice(start + 1, starts[index + 1])]);
}

/** Pairs of panels that cover a field of the grid both. */
function overlapsOf(all: readonly Panel[]): string[] {
  const fields = new Map<string, string>();
  return all.flatMap(({ title, gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, i) => `${x + (i % w)},${y + Math.floor(i / w)}`).flatMap(
      (field) => {
        const before = fields.get(field);
        fields.set(field, title);
        return before === undefined ? [] : [`${before} / ${title}`];
      },
    ),
  );
}

describe('The dashboard', () => {
  it.each(queriesOf(DASHBOARD))('queries what the metrics have: $panel: $expr', (query) => {
    const { expr, legend } = query;
    expect(unknownIn(expr)).toEqual([]);
    const labels = Array.from(legend.matchAll(/{{(\w+)}}/g), ([, label]) => label!);
    const grouping = /by \(([^)]*)\)/.exec(expr)?.[1]?.split(', ') ?? [];
    expect(labels).toEqual(grouping.filter((label) => label !== 'le'));
    // Every panel follows the variables.
    expect(expr).toContain('job=~"$job"');
    if (!/idempotency_(?:store|reconciled|outcome_io|blob|journal)_/.test(expr)) {
      expect(expr).toContain('idempotency_operation_name=~"$operation"');
    }
  });

  it('shows every metric', () => {
    const shown = queriesOf(DASHBOARD).map(({ expr }) => expr);
    const hidden = METRICS.map(prometheusName).filter((name) => {
      const series = new RegExp(`\\b${name}(?:_bucket|_count|_sum)?\\b`);
      return !shown.some((expr) => series.test(expr));
    });
    expect(hidden).toEqual([]);
  });

  it('lets the reader choose data source, job and operation', () => {
    expect(templating.list.map(({ name }) => name)).toEqual(['datasource', 'job', 'operation']);
    for (const { type, datasource, query } of templating.list) {
      if (type === 'datasource') {
        expect(query).toBe('prometheus');
      } else {
        expect(datasource).toEqual(SOURCE);
        const [, selector, label] = /^label_values\((.+), (\w+)\)$/.exec(
          (query as { query: string }).query,
        )!;
        expect(unknownIn(`sum by (${label}) (${selector})`)).toEqual([]);
      }
    }
  });

  it('has its rows, and something in each', () => {
    const rows = rowsOf(panels);
    expect(rows.map(([title]) => title)).toEqual([
      'Outcomes',
      'Conflicts and waits',
      'Incidents',
      'Leases and takeovers',
      'Store',
      'Large and secret outcomes',
    ]);
    for (const [, below] of rows) expect(below.length).toBeGreaterThan(1);
  });

  it('takes all data from the chosen source', () => {
    const shown = panels.filter(({ type }) => type !== 'row');
    for (const { datasource, targets = [], description } of shown) {
      expect(datasource).toEqual(SOURCE);
      expect(targets.length).toBeGreaterThan(0);
      for (const target of targets) expect(target.datasource).toEqual(SOURCE);
      expect(new Set(targets.map(({ refId }) => refId)).size).toBe(targets.length);
      expect(description).toMatch(/\.$/);
    }
  });

  it('has panels of their own ids that fit into the grid, and do not overlap', () => {
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    for (const { gridPos } of panels) {
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(GRID_COLUMNS);
      expect(gridPos.h).toBeGreaterThan(0);
    }
    expect(overlapsOf(panels)).toEqual([]);
  });

  it('would not hide two panels at one place', () => {
    const [, first, second] = panels as [Panel, Panel, Panel];
    expect(overlapsOf([first, { ...second, gridPos: first.gridPos }])).not.toEqual([]);
  });
});

type EventType = IdempotencyEvent['type'];

const RULES = rulesIn(readRules());
const RUNBOOK = 'docs/operations/alerts.md';
const RUNBOOK_URL = `https://github.com/nestjs-idempotency/nestjs-idempotency/blob/main/${RUNBOOK}`;

/** What each section of the runbook answers. */
const PARTS = ['What it means', 'How to confirm', 'What to do', 'How it was provoked'];

/** The events of the breaker are a state. The others have no metric: requests find the store, or a key, not there. */
const READ_OTHERWISE: Partial<Record<EventType, string>> = {
  breaker_opened: 'idempotency_store_breaker_status',
  reply_mismatched: 'store_unavailable',
  keys_stale: 'outcome_unreadable',
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
