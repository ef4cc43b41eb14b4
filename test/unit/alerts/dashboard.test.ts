import { describe, expect, it } from '@jest/globals';
import { queriesOf, readDashboard, type Panel } from '../../support/prometheus/dashboard.js';
import { unknownIn } from '../../support/prometheus/rules.js';

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
    if (!/idempotency_(?:store|reconciled)_/.test(expr)) {
      expect(expr).toContain('idempotency_operation_name=~"$operation"');
    }
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
