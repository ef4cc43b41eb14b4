import type { Report, Row } from '../../../test/support/docs/figures/report.js';
import { isSame, type Measurement } from '../measuring/interleave.js';
import { pairedRatio, type Spread } from '../measuring/statistics.js';
import { BARE, BY_HAND, budgetRows, OURS, PEERS } from './budget.js';
import type { PartResult, Results } from './result.js';

/** From this share of its cores' time on a table says that its machine had other things to do. */
const BUSY = 0.1;

/** The tables of the documentation, by the names of their places. */
export function tablesOf(results: Results): Map<string, Report> {
  const tables = new Map<string, Report>();
  const add = (name: string, part: string, rows: (result: PartResult) => Row[]) => {
    const result = results.get(part);
    const table = result && rows(result);
    if (table !== undefined && table.length > 0) tables.set(name, reportOf(result!, table));
  };
  add('bench-store', 'store', storeRows);
  add('bench-http-express', 'http', (result) => httpRows(result, 'express'));
  add('bench-http-fastify', 'http', (result) => httpRows(result, 'fastify'));
  add('bench-peers', 'http', peerRows);
  add('bench-commands', 'counts', commandRows);
  add('bench-contention', 'contention', contentionRows);
  add('bench-memory', 'counts', memoryRows);
  add('bench-growth', 'growth', growthRows);
  add('bench-growth-requests', 'growth', requestGrowthRows);
  add('bench-startup', 'startup', startupRows);
  add('bench-size', 'size', sizeRows);
  add('bench-postgres', 'postgres', byHandRows);
  add('bench-mysql', 'mysql', byHandRows);
  add('bench-mysql-deletion', 'mysql', deletionRows);
  add('bench-sqlite', 'sqlite', byHandRows);
  add('bench-nodes', 'nodes', nodesRows);
  add('bench-budget', 'http', () => budgetRows(results));
  return tables;
}

function reportOf(result: PartResult, table: Row[]): Report {
  const { command, date, rounds, machine } = result;
  const versions = { ...result.versions, rounds: String(rounds.rounds) };
  const { cores, processor, busyBefore } = machine;
  const share = Math.round(100 * busyBefore);
  const state = busyBefore > BUSY ? `${processor}, ${share} % busy with other things` : processor;
  return { command, date, versions, cores, processor: state, table };
}

function storeRows({ measurements }: PartResult): Row[] {
  return measurements.map((measurement) => {
    const { task, via, pipelining, bytes, inFlight } = measurement.factors;
    const raw = rivalOf(measurement, measurements, 'SET NX GET + SET XX');
    return {
      what: task === 'pair' ? 'begin + complete' : 'replay',
      via: via ?? '',
      pipelining: pipelining ?? '',
      bytes: bytes ?? '',
      'in flight': inFlight ?? '',
      by: measurement.entrant,
      ...rates(measurement, 'a second'),
      ...latencies(measurement),
      ...costs(measurement),
      '÷ raw': ratioTo(measurement, raw),
    };
  });
}

function httpRows({ measurements }: PartResult, platform: string): Row[] {
  return measurements
    .filter(({ factors }) => factors.platform === platform)
    .map((measurement) => {
      const bare = rivalOf(measurement, measurements, BARE);
      return {
        request: measurement.factors.scenario ?? '',
        connections: measurement.factors.connections ?? '',
        by: measurement.entrant,
        ...rates(measurement, 'requests/s'),
        ...latencies(measurement),
        ...costs(measurement),
        'load CPU µs': figure(measurement.metrics.loadUs?.median),
        '÷ bare': ratioTo(measurement, bare),
      };
    });
}

/** What the same work costs by hand, and with each package. */
function peerRows({ measurements }: PartResult): Row[] {
  const shown = [OURS, BARE, BY_HAND, ...PEERS];
  return measurements
    .filter(({ factors, entrant }) => {
      const { scenario, connections } = factors;
      const isUsual = connections === 64 && (scenario === 'first' || scenario === 'replay');
      return isUsual && shown.includes(entrant);
    })
    .map((measurement) => {
      const { scenario, platform } = measurement.factors;
      const ours = rivalOf(measurement, measurements, OURS);
      return {
        request: `${scenario ?? ''}, ${platform === 'express' ? 'Express' : 'Fastify'}`,
        by: measurement.entrant,
        'requests/s': figure(measurement.metrics.perSecond?.median),
        'p50 ms': figure(measurement.metrics.p50Ms?.median),
        'p99 ms': figure(measurement.metrics.p99Ms?.median),
        ...costs(measurement),
        'ours ÷ it, requests/s': ours === undefined ? '' : ratioTo(ours, measurement),
      };
    });
}

function commandRows({ measurements }: PartResult): Row[] {
  return measurements
    .filter(({ metrics }) => metrics.commands !== undefined)
    .map(({ factors, metrics }) => ({
      request: factors.scenario ?? '',
      'commands to Redis': figure(metrics.commands?.median),
    }));
}

function contentionRows({ measurements }: PartResult): Row[] {
  return measurements.map(({ factors, entrant, metrics }) => ({
    duplicates: factors.duplicates === 'wait' ? 'wait' : 'are refused',
    by: entrant,
    'all answered, ms': figure(metrics.totalMs?.median),
    'min to max': range(metrics.totalMs),
    'p50 ms': figure(metrics.p50Ms?.median),
    'p99 ms': figure(metrics.p99Ms?.median),
    executions: figure(metrics.executions?.max),
    outcomes: figure(metrics.outcomes?.median),
    conflicts: figure(metrics.conflicts?.median),
    'commands a request': figure(metrics.commands?.median),
    'CPU µs': figure(metrics.cpuUs?.median),
    'Redis CPU µs': figure(metrics.redisUs?.median),
  }));
}

function memoryRows({ measurements }: PartResult): Row[] {
  return measurements
    .filter(({ factors: { outcomeBytes } }) => Number(outcomeBytes) > 0)
    .map(({ factors, entrant, metrics }) => ({
      'body, B': factors.outcomeBytes ?? '',
      by: entrant,
      'record, B': figure(metrics.bytes?.median),
      'of it besides the body': figure(
        (metrics.bytes?.median ?? NaN) - Number(factors.outcomeBytes),
      ),
    }));
}

function growthRows({ measurements }: PartResult): Row[] {
  return measurements
    .filter(({ factors }) => factors.by !== 'request bytes')
    .map((measurement) => {
      const { by, task } = measurement.factors;
      const first = measurements.find(({ factors }) => factors.by === by && factors.task === task);
      return {
        what: task === 'pair' ? 'begin + complete' : 'replay',
        with: `${Number(measurement.entrant).toLocaleString('en')} ${by ?? ''}`,
        ...rates(measurement, 'a second'),
        ...costs(measurement),
        '÷ the first': ratioTo(measurement, first),
      };
    });
}

function requestGrowthRows({ measurements }: PartResult): Row[] {
  const rows = measurements.filter(({ factors }) => factors.by === 'request bytes');
  return rows.map((measurement) => ({
    'request body, B': measurement.factors.bytes ?? '',
    by: measurement.entrant,
    ...rates(measurement, 'requests/s'),
    ...costs(measurement),
  }));
}

function startupRows({ measurements }: PartResult): Row[] {
  return measurements.map(({ entrant, metrics }) => ({
    application: entrant,
    'load, ms': figure(metrics.loadMs?.median),
    'load, min to max': range(metrics.loadMs),
    'start, ms': figure(metrics.startMs?.median),
    'start, min to max': range(metrics.startMs),
  }));
}

function sizeRows({ measurements }: PartResult): Row[] {
  return measurements.map(({ factors, entrant, metrics }) => ({
    what: factors.entry === 'package' ? 'the package, unpacked' : `import '${factors.entry ?? ''}'`,
    of: entrant === 'itself' ? 'nestjs-idempotency' : entrant,
    files: figure(metrics.files?.median),
    bytes: figure(metrics.bytes?.median),
    packed: metrics.packedBytes === undefined ? '' : figure(metrics.packedBytes.median),
  }));
}

/** What a column is called that has other factors than the task. */
const FACTORS = { server: 'server', synchronous: 'synchronous', inFlight: 'in flight' } as const;

function byHandRows({ measurements }: PartResult): Row[] {
  const compared = measurements.filter(({ factors }) => factors.task !== 'begin');
  return compared.map((measurement, i) => {
    const { factors, entrant, metrics } = measurement;
    const names = Object.entries(FACTORS).filter(([name]) => name in factors);
    return {
      what: factors.task === 'pair' ? 'begin + complete' : 'replay',
      ...Object.fromEntries(names.map(([name, column]) => [column, factors[name] ?? ''])),
      by: entrant,
      ...rates(measurement, 'a second'),
      ...latencies(measurement),
      'CPU µs': figure(metrics.cpuUs?.median),
      '÷ by hand': ratioTo(measurement, compared[i | 1]),
    };
  });
}

function deletionRows({ measurements }: PartResult): Row[] {
  const begins = measurements.filter(({ factors }) => factors.task === 'begin');
  return begins.map((measurement, i) => ({
    server: measurement.factors.server ?? '',
    what: measurement.entrant,
    ...latencies(measurement),
    'p50 ÷ alone': ratioTo(measurement, begins[i | 1], 'p50Ms'),
  }));
}

function nodesRows({ measurements }: PartResult): Row[] {
  return measurements.map((measurement) => {
    const { task, platform, scenario, node } = measurement.factors;
    const onFirst = measurements.find(
      ({ factors, entrant }) =>
        factors.task === task &&
        factors.platform === platform &&
        factors.scenario === scenario &&
        (node === undefined || entrant === measurement.entrant),
    );
    const peer = rivalOf(measurement, measurements, '@node-idempotency/nestjs');
    return {
      what: task === undefined ? `${scenario ?? ''}, ${platform ?? ''}` : `store, ${task}`,
      by: node === undefined ? 'nestjs-idempotency' : measurement.entrant,
      on: node ?? measurement.entrant,
      ...rates(measurement, 'a second'),
      ...costs(measurement),
      '÷ the first': ratioTo(measurement, onFirst),
      '÷ @node-idempotency/nestjs': ratioTo(measurement, peer),
    };
  });
}

function rates({ metrics }: Measurement, name: string): Row {
  return { [name]: figure(metrics.perSecond?.median), 'min to max': range(metrics.perSecond) };
}

function latencies({ metrics }: Measurement): Row {
  return {
    'p50 ms': figure(metrics.p50Ms?.median),
    'p99 ms': figure(metrics.p99Ms?.median),
    'p99.9 ms': figure(metrics.p999Ms?.median),
  };
}

function costs({ metrics }: Measurement): Row {
  return {
    'CPU µs': figure(metrics.cpuUs?.median),
    'Redis CPU µs': figure(metrics.redisUs?.median),
  };
}

/** With its 95 % interval, from the rates of the rounds, or another metric of them. */
function ratioTo(
  measurement: Measurement,
  other: Measurement | undefined,
  metric = 'perSecond',
): string {
  const [one, two] = [measurement.metrics[metric], other?.metrics[metric]];
  if (one === undefined || two === undefined || measurement === other) return '';
  const { estimate, low, high } = pairedRatio(one.rounds, two.rounds);
  return `${estimate.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)})`;
}

function rivalOf(
  measurement: Measurement,
  measurements: readonly Measurement[],
  name: string,
): Measurement | undefined {
  return measurements.find((other) => other.entrant === name && isSame(other, measurement));
}

function range(spread: Spread | undefined): string {
  return spread === undefined ? '' : `${formatNumber(spread.min)} to ${formatNumber(spread.max)}`;
}

function formatNumber(value: number): string {
  return figure(value).toLocaleString('en');
}

/** Three digits, or all before the point. */
function figure(value: number | undefined): number | string {
  if (value === undefined || Number.isNaN(value)) return '';
  return Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(3));
}
