import type { Row } from '../../support/figures/report.js';
import type { Plan } from './plan.js';
import type { RunResult } from './run.js';
import { inWords, tableText } from './table-text.js';

/** What a run came to, a row for each figure. */
export function rowsOf(result: RunResult): Row[] {
  const { figures, trouble, seconds, requestsPerSecond, objections } = result;
  const limits = atMost(result);
  const { answers, ...counted } = figures;
  const rows: [string, string | number][] = [
    ...Object.entries(trouble),
    ['seconds', Math.round(seconds)],
    ['requests/s', requestsPerSecond],
    ...Object.entries(counted).map(([name, count]): [string, string | number] => {
      const limit = limits[name];
      return [inWords(name), limit === undefined ? count : `${count} (${limit})`];
    }),
    ...Object.entries(answers).map(([name, count]): [string, number] => [`answer ${name}`, count]),
    ['objections of the oracle', objections.length],
  ];
  return rows.map(([what, count]) => ({ what, count }));
}

/** The same for eyes. */
export function tableOf({ seed }: Plan, result: RunResult): string {
  return tableText(rowsOf(result), seed, result.objections);
}

/** Where there was no failure in n trials: all that this shows, the "rule of three". */
function atMost({ figures }: RunResult): Readonly<Record<string, string>> {
  const { keys, extraExecutions, requests } = figures;
  const trials: [keyof typeof figures, number][] = [
    ['keysExecutedTwice', keys],
    ['keysWithDifferentSuccesses', keys],
    ['successesWithoutEffect', keys],
    ['keysStuck', keys],
    ['unreported', extraExecutions],
    ['serverErrorsAfterSuccess', requests],
  ];
  const none = trials.filter(([name, count]) => figures[name] === 0 && count > 0);
  return Object.fromEntries(none.map(([name, count]) => [name, `< 3/${count} at 95 %`]));
}
