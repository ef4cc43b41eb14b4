import { readFileSync } from 'node:fs';
import type { ClientLog } from './client-log.js';
import type { Effect, EventLine } from './worker/lines.js';

/** All that is known of a run once its workers have ended; only `events` has the library's own word. */
export interface Evidence {
  readonly ledger: readonly Effect[];
  readonly events: readonly EventLine[];
  readonly clients: ClientLog;
  /** Keys that gave no final answer, though they were asked for long enough. */
  readonly stuck: readonly string[];
  /** When the processes died that were killed from outside, by the worker's name. */
  readonly deaths: ReadonlyMap<string, number>;
}

export function readLines<Line>(path: string): Line[] {
  const text = readFileSync(path, 'utf8');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line);
}
