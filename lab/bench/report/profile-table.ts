import type { Profiler } from 'node:inspector';
import type { Row } from '../../../test/support/docs/figures/report.js';
import { timesOf } from './self-times.js';

/** One profile of several that are shown side by side. */
export interface ProfileColumn {
  readonly name: string;
  /** Of the process, for each request or pair, in µs. */
  readonly cpuUs: number;
  /** Parts of one, by who had the work. */
  readonly shares: ReadonlyMap<string, number>;
}

const OTHERS = 'all else';

/** The groups of code; packages that one of them depends on count as the others. */
const GROUPS: readonly (readonly [RegExp, string])[] = [
  [/^((dist|lib)(\/|$)|@node-idempotency\/|bench$)/, 'the library’s own code'],
  [/^safe-stable-stringify$/, 'canonical JSON'],
  [/^AsyncLocalStorage$/, 'AsyncLocalStorage, in JavaScript'],
  [/^\(garbage collector\)$/, 'garbage collection'],
  [/^\(native code\)$/, 'native code: system calls, digests, promises'],
  [/^node$/, 'Node in JavaScript'],
  [/^(ioredis|@redis\/client|denque)$/, 'the Redis client'],
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

/** A row for each who had some of the work, in µs. */
export function sideBySide(columns: readonly ProfileColumn[]): Row[] {
  const names = [...new Set([...GROUPS.map(([, name]) => name), OTHERS])];
  const row = (title: string, cell: (column: ProfileColumn) => number): Row => ({
    'CPU µs': title,
    ...Object.fromEntries(columns.map((column) => [column.name, cell(column).toFixed(1)])),
  });
  return [
    row('all together', ({ cpuUs }) => cpuUs),
    ...names
      .filter((name) => columns.some(({ shares }) => shares.has(name)))
      .map((name) => row(name, ({ cpuUs, shares }) => cpuUs * (shares.get(name) ?? 0))),
  ];
}
