import type { Row } from '../../../test/support/docs/figures/report.js';
import type { Reading } from './reading.js';

/** A reading as the documentation shows it. */
export function rowOf(platform: string, reading: Reading): Row {
  const { requests, heapBytes, externalBytes, rssBytes, counts } = reading;
  return {
    platform,
    requests,
    'heap, MB': megabytes(heapBytes),
    'external, MB': megabytes(externalBytes),
    'RSS, MB': megabytes(rssBytes),
    listeners: sumOf(counts, 'listeners of '),
    timers: counts.timers ?? NaN,
    sockets: counts.sockets ?? NaN,
    promises: counts.promises ?? NaN,
    'active resources': sumOf(counts, 'active '),
  };
}

function megabytes(bytes: number): number {
  return Number((bytes / 1e6).toFixed(1));
}

function sumOf(counts: Reading['counts'], prefix: string): number {
  return Object.entries(counts)
    .filter(([name]) => name.startsWith(prefix))
    .reduce((sum, [, count]) => sum + count, 0);
}
