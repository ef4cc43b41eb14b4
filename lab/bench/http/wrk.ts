import { execFile, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { TimedOrder } from './load.js';

const run = promisify(execFile);

const SCRIPT = fileURLToPath(new URL('wrk.lua', import.meta.url));
const PROGRAM = process.env.WRK_BIN ?? 'wrk';
/** `times` has the CPU time of what has ended, in minutes and seconds: its second line is of the children. */
const TIMED = '"$@" && times';
let runs = 0;

export interface WrkResult {
  readonly count: number;
  readonly seconds: number;
  /** Answers with a status from 400 on. */
  readonly failures: number;
  readonly errors: number;
  /** Of the generator, for all requests together. */
  readonly cpuUs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
}

/** Undefined where it is not installed. */
export function wrkVersion(): string | undefined {
  const { stdout } = spawnSync(PROGRAM, ['-v'], { encoding: 'utf8' });
  return /^wrk (?:debian\/)?(\d[\d.]*)/.exec(stdout)?.[1];
}

/**
 * Sends requests over and over. It knows whole seconds only, looks at no body, and leaves the requests alone that are
 * under way at the end.
 */
export async function runWrk(order: TimedOrder): Promise<WrkResult> {
  const { url, connections, ms, body, key = '' } = order;
  const seconds = Math.max(1, Math.ceil(ms / 1000));
  const prefix = `wrk-${process.pid}-${(runs += 1)}-`;
  const { stdout } = await run('/bin/sh', [
    ...['-c', TIMED, 'sh', PROGRAM],
    ...['-t', '1', '-c', String(connections), '-d', `${seconds}s`, '-s', SCRIPT, url],
    ...['--', key, prefix, body],
  ]);
  const result = JSON.parse(/^\{.*\}$/m.exec(stdout)?.[0] ?? '') as Record<string, number>;
  const { count = NaN, microseconds = NaN, failures = NaN, errors = NaN } = result;
  const { p50 = NaN, p99 = NaN, p999 = NaN } = result;
  return {
    ...{ count, failures, errors, cpuUs: childrenUs(stdout) },
    seconds: microseconds / 1e6,
    ...{ p50Ms: p50 / 1000, p99Ms: p99 / 1000, p999Ms: p999 / 1000 },
  };
}

function childrenUs(output: string): number {
  const line = output.trimEnd().split('\n').at(-1) ?? '';
  const times = [...line.matchAll(/(\d+)m([\d.]+)s/g)];
  return times.reduce((sum, [, minutes, s]) => sum + (Number(minutes) * 60 + Number(s)) * 1e6, 0);
}
