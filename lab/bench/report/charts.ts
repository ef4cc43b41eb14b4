import type { Measurement } from '../measuring/interleave.js';
import { barChart, type BarGroup } from './bar-chart.js';
import { lineChart, type Series } from './line-chart.js';
import type { PartResult, Results } from './result.js';

/** The charts of the documentation, by the names of their files. */
export function chartsOf(results: Results): Map<string, string> {
  const charts = new Map<string, string>();
  const http = results.get('http');
  if (http !== undefined) {
    for (const [scenario, title] of [
      ['first', 'First requests a second'],
      ['replay', 'Replays a second'],
    ] as const) {
      charts.set(
        `${scenario}.svg`,
        barChart(`${title}, 64 connections`, httpGroups(http, scenario)),
      );
    }
  }
  const store = results.get('store');
  if (store !== undefined) {
    charts.set('store.svg', barChart('begin + complete, pairs a second', storeGroups(store)));
  }
  const growth = results.get('growth');
  if (growth !== undefined) {
    charts.set(
      'growth-records.svg',
      lineChart(
        'Operations a second with so many records',
        { x: 'records', y: 'a second', isLogarithmic: true },
        seriesOf(growth, 'records', 'perSecond'),
      ),
    );
    charts.set(
      'growth-bytes.svg',
      lineChart(
        'Redis CPU µs of an operation with an outcome of so many bytes',
        { x: 'bytes', y: 'Redis CPU µs' },
        seriesOf(growth, 'outcome bytes', 'redisUs'),
      ),
    );
  }
  return charts;
}

function httpGroups({ measurements }: PartResult, scenario: string): BarGroup[] {
  return ['Fastify', 'Express'].map((name) => ({
    name,
    bars: measurements
      .filter(({ factors }) => factors.platform === name.toLowerCase())
      .filter(({ factors }) => factors.scenario === scenario && factors.connections === 64)
      .map((measurement) => barOf(measurement, 'perSecond')),
  }));
}

function storeGroups({ measurements }: PartResult): BarGroup[] {
  const names = new Map<string, Measurement[]>();
  for (const measurement of measurements) {
    const { task, via, bytes, pipelining = '', inFlight = '' } = measurement.factors;
    if (task !== 'pair' || via !== 'TCP' || bytes !== 200) continue;
    const name = `auto-pipelining ${pipelining}, ${inFlight} in flight`;
    names.set(name, [...(names.get(name) ?? []), measurement]);
  }
  return [...names].map(([name, members]) => ({
    name,
    bars: members.map((measurement) => barOf(measurement, 'perSecond')),
  }));
}

function barOf({ entrant, metrics }: Measurement, name: string) {
  const { median = 0, min = 0, max = 0 } = metrics[name] ?? {};
  return { name: entrant, value: median, min, max, isOwn: entrant.startsWith('nestjs-idem') };
}

function seriesOf({ measurements }: PartResult, by: string, name: string): Series[] {
  return (['pair', 'replay'] as const).map((task) => ({
    name: task === 'pair' ? 'begin + complete' : 'replay',
    points: measurements
      .filter(({ factors }) => factors.by === by && factors.task === task)
      .map(({ entrant, metrics }) => {
        const { median = 0, min = 0, max = 0 } = metrics[name] ?? {};
        return { x: Number(entrant), y: median, min, max };
      }),
  }));
}
