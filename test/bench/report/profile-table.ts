import type { Profiler } from 'node:inspector';
import type { Row } from '../../support/figures/report.js';
import { timesOf } from './self-times.js';

/** One profile of several that are shown side by side. */
export interface ProfileColumn {
  readonly name: string;
  /** Parts of one, by who had the work. */
  readonly shares: ReadonlyMap<string, number>;
}

const OURS = 'nestjs-idempotency';
const OTHERS = 'all else';

/** Who is told apart; the packages that one of them stands on count as the others. */
const GROUPS: readonly (readonly [RegExp, string])[] = [
  [/^dist\/transports/, `${OURS}: requests and recording`],
  [/^dist\/stores/, `${OURS}: store`],
  [/^dist\//, `${OURS}: the rest`],
  [/^(safe-stable-stringify)/, 'canonical JSON'],
  [/^AsyncLocalStorage$/, 'AsyncLocalStorage, in JavaScript'],
  [/^\(garbage collector\)$/, 'garbage collection'],
  [/^\(native code\)$/, 'native code: system calls, digests, promises'],
  [/^node$/, 'Node in JavaScript'],
  [/^ioredis$/, 'ioredis'],
  [/^rxjs$/, 'rxjs'],
  [/^@nestjs\//, 'Nest'],
  [/^(fastify|express|router|body-parser)$/, 'the platform'],
];

export function sharesByPlace(profile: Profiler.Profile, library: string): Map<string, number> {
  const { places, total } = timesOf(profile, library);
  const shares = new Map<string, number>();
  for (const [place, time] of places) {
    const group = GROUPS.find(([pattern]) => pattern.test(place))?.[1] ?? OTHERS;
    shares.set(group, (shares.get(group) ?? 0) + time / total);
  }
  return shares;
}

/** A row for each who had some of the work, in per cent of the column's process. */
export function sideBySide(columns: readonly ProfileColumn[]): Row[] {
  const names = [...new Set([...GROUPS.map(([, name]) => name), OTHERS])];
  return names
    .filter((name) => columns.some(({ shares }) => shares.has(name)))
    .map((name) => ({
      '% of the CPU time': name,
      ...Object.fromEntries(
        columns.map((column) => [column.name, (100 * (column.shares.get(name) ?? 0)).toFixed(1)]),
      ),
    }));
}
