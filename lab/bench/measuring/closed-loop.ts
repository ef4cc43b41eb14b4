import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import type { Sample } from './interleave.js';

export interface Load {
  /** How many are under way at any time. */
  readonly inFlight: number;
  readonly ms: number;
  /** Ends it earlier, where records would fill the memory. */
  readonly atMost?: number;
}

/** Does a task over and over, and counts what this process pays for it. */
export async function closedLoop(task: () => Promise<void>, load: Load): Promise<Sample> {
  const { inFlight, ms, atMost = Infinity } = load;
  const latencies = createHistogram();
  let started = 0;
  const cpu = process.cpuUsage();
  const begin = performance.now();
  const end = begin + ms;
  const worker = async () => {
    let now = performance.now();
    while (now < end && started < atMost) {
      started += 1;
      const sentAt = now;
      await task();
      now = performance.now();
      record(latencies, now - sentAt);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, worker));
  const seconds = (performance.now() - begin) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return {
    count: started,
    perSecond: started / seconds,
    cpuUs: (user + system) / started,
    ...percentiles(latencies),
  };
}

/** A histogram holds whole numbers: microseconds. */
export function record(latencies: RecordableHistogram, ms: number): void {
  latencies.record(Math.max(1, Math.round(ms * 1000)));
}

export function percentiles(latencies: RecordableHistogram): Sample {
  const at = (percentile: number) => latencies.percentile(percentile) / 1000;
  return { p50Ms: at(50), p99Ms: at(99), p999Ms: at(99.9) };
}
