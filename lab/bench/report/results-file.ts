import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { projectRoot } from '../../../test/support/project-root.js';
import type { Machine, PartResult, Results } from './result.js';

/** Where the documentation keeps what runs have written: results of the parts, the charts, and the pages of tables. */
export const measurementsFolder = join(projectRoot, 'docs/measurements');

const READ_MS = 1_000;

/** Looks for a second at what it does. */
export async function thisMachine(): Promise<Machine> {
  const before = coreTimes();
  await delay(READ_MS);
  const after = coreTimes();
  const busy = 1 - (after.idle - before.idle) / (after.all - before.all);
  return {
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    busyBefore: Number(busy.toFixed(2)),
  };
}

/** Of all cores together, since the machine was started. */
function coreTimes(): { readonly idle: number; readonly all: number } {
  let [idle, all] = [0, 0];
  for (const { times } of cpus()) {
    idle += times.idle;
    for (const ms of Object.values(times)) all += ms;
  }
  return { idle, all };
}

/** Keeps a result in `{part}.json`, a measurement on each line. */
export function saveResult(result: PartResult): void {
  mkdirSync(measurementsFolder, { recursive: true });
  const { measurements, ...origin } = result;
  const head = JSON.stringify(origin, null, 2).slice(0, -2);
  const lines = measurements.map((measurement) => `    ${JSON.stringify(measurement, short)}`);
  const text = `${head},\n  "measurements": [\n${lines.join(',\n')}\n  ]\n}\n`;
  writeFileSync(join(measurementsFolder, `${result.part}.json`), text);
}

/** All that is kept. */
export function loadResults(): Results {
  if (!existsSync(measurementsFolder)) return new Map();
  const files = readdirSync(measurementsFolder).filter((name) => name.endsWith('.json'));
  const results = files.map((name) => {
    return JSON.parse(readFileSync(join(measurementsFolder, name), 'utf8')) as PartResult;
  });
  return new Map(results.map((result) => [result.part, result]));
}

/** Five digits say more than any of these measurements knows. */
function short(_name: string, value: unknown): unknown {
  return typeof value === 'number' ? Number(value.toPrecision(5)) : value;
}
