import type { Row } from '../../../test/support/docs/figures/report.js';
import { isSame, type Measurement } from '../measuring/interleave.js';
import { BUDGET, inDigits } from './budget.js';

/** How many times as much as the base the head may have: runs of one commit differ by a thousandth. */
const COUNTED = {
  commands: { title: 'commands', atMost: 1 },
  bytes: { title: 'bytes of a record', atMost: 1 },
  allocated: { title: 'bytes allocated', atMost: 1.01 },
} as const;

export interface ComparedCount {
  readonly row: Row;
  readonly isHeld: boolean;
}

/** What does not depend on the machine, of two commits: the head may not have more of it, nor other commands than the budget. */
export function compareCounts(
  base: readonly Measurement[],
  head: readonly Measurement[],
): ComparedCount[] {
  return head.flatMap((counted) =>
    Object.entries(COUNTED).flatMap(([name, { title, atMost }]): ComparedCount[] => {
      const now = counted.metrics[name]?.median;
      if (now === undefined) return [];
      const before = base.find((other) => name in other.metrics && isSame(other, counted));
      const was = before?.metrics[name]?.median;
      const isHeld = (was === undefined || now <= was * atMost) && isInBudget(name, counted, now);
      const what = [title, ...Object.values(counted.factors)].join(', ');
      const row = {
        ...{ what, base: was === undefined ? '–' : inDigits(was), head: inDigits(now) },
        verdict: isHeld ? 'held' : 'missed',
      };
      return [{ row, isHeld }];
    }),
  );
}

function isInBudget(name: string, { factors: { scenario } }: Measurement, now: number): boolean {
  const title = scenario === 'first' ? 'first request' : scenario;
  const line = BUDGET.find(
    ({ what }) => name === 'commands' && what === `commands of a ${title ?? ''}`,
  );
  return line === undefined || now === line.must;
}
