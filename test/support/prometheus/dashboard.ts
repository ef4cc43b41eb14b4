import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../project-root.js';

interface DataSource {
  readonly type: string;
  readonly uid: string;
}

export interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly datasource?: DataSource;
  readonly gridPos: Readonly<Record<'x' | 'y' | 'w' | 'h', number>>;
  readonly targets?: readonly {
    readonly refId: string;
    readonly expr: string;
    readonly datasource: DataSource;
    readonly legendFormat: string;
  }[];
}

export interface Variable {
  readonly name: string;
  readonly type: string;
  readonly datasource?: DataSource;
  readonly query: string | { readonly query: string };
}

export interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly Variable[] };
}

export const DASHBOARD_FILE = 'docs/operations/idempotency.dashboard.json';

/** The dashboard that the package ships. */
export function readDashboard(): Dashboard {
  return JSON.parse(readFileSync(join(projectRoot, DASHBOARD_FILE), 'utf8')) as Dashboard;
}

/** Each query of the panels, with values for Grafana's variables. */
export function queriesOf(
  { panels }: Dashboard,
  variables: Readonly<Record<string, string>> = { __rate_interval: '5m' },
): { panel: string; expr: string; legend: string }[] {
  const fill = (expr: string) =>
    expr.replace(/\$(\w+)/g, (text, name: string) => variables[name] ?? text);
  return panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr, legendFormat }) => ({
      panel: title,
      expr: fill(expr),
      legend: legendFormat,
    })),
  );
}
