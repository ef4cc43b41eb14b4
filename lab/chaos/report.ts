import type { Row } from '../../test/support/docs/figures/report.js';
import type { RunResult } from './run.js';
import { figuresInWords, type Figure } from './table-text.js';

/** What a run came to, a row for each figure. */
export function rowsOf(result: RunResult): Row[] {
  const { trouble, seconds, requestsPerSecond, objections } = result;
  const { responses, ...figures } = result.figures;
  const { keys, extraExecutions, requests } = figures;
  const rows: Figure[] = [
    ...Object.entries(trouble),
    ['seconds', Math.round(seconds)],
    ['requests/s', requestsPerSecond],
    ...figuresInWords(figures, {
      keysExecutedTwice: keys,
      keysWithDifferentSuccesses: keys,
      successesWithoutEffect: keys,
      keysStuck: keys,
      unreported: extraExecutions,
      serverErrorsAfterSuccess: requests,
    }),
    ...Object.entries(responses).map(([name, count]): Figure => [`response ${name}`, count]),
    ['objections of the oracle', objections.length],
  ];
  return rows.map(([what, count]) => ({ what, count }));
}
