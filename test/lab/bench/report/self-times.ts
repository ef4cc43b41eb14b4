import type { Profiler } from 'node:inspector';
import type { Row } from '../../../support/figures/report.js';

const MOST_ROWS = 40;
/** What V8 calls the time in which the process had nothing to do. */
const IDLE = '(idle)';

/** Where the time of a profile went, idleness aside: by package or folder of the library, and by function. */
export function selfTimes(
  profile: Profiler.Profile,
  library: string,
): { readonly byPlace: Row[]; readonly byFunction: Row[] } {
  const { places, functions, total } = timesOf(profile, library);
  const rows = (times: ReadonlyMap<string, number>): Row[] =>
    [...times]
      .sort(([, one], [, other]) => other - one)
      .slice(0, MOST_ROWS)
      .map(([name, time]) => ({ '%': ((100 * time) / total).toFixed(1), name }));
  return { byPlace: rows(places), byFunction: rows(functions) };
}

/** The same as numbers, whatever their unit. */
export function timesOf(
  { nodes, samples = [], timeDeltas = [] }: Profiler.Profile,
  library: string,
) {
  const names = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));
  const places = new Map<string, number>();
  const functions = new Map<string, number>();
  let total = 0;
  for (const [i, id] of samples.entries()) {
    const { functionName, url, lineNumber } = names.get(id)!;
    if (functionName === IDLE) continue;
    const time = Math.max(0, timeDeltas[i] ?? 0);
    const file = shortened(url, library);
    const where = file === '' ? '' : ` ${file}:${lineNumber + 1}`;
    total += time;
    add(places, placeOf(file, functionName), time);
    add(functions, `${functionName === '' ? '(anonymous)' : functionName}${where}`, time);
  }
  return { places, functions, total };
}

function add(times: Map<string, number>, name: string, time: number): void {
  times.set(name, (times.get(name) ?? 0) + time);
}

/** `dist/esm/stores/redis/index.js`, `@nestjs/core/router/…`, `node:net`. */
function shortened(url: string, library: string): string {
  const [, inPackage] = /^.*\/node_modules\/(.*)$/.exec(url) ?? [];
  if (inPackage !== undefined) return inPackage;
  const path = url.replace(/^file:\/\//, '');
  if (path.startsWith(library)) return path.slice(library.length + 1);
  return path.replace(/^.*\/test\/lab\/bench\//, 'bench/');
}

function placeOf(file: string, functionName: string): string {
  if (file === '') return functionName.startsWith('(') ? functionName : '(native code)';
  if (file.includes('async_hooks')) return 'AsyncLocalStorage';
  if (file.startsWith('node:')) return 'node';
  const [first = '', second = '', third = ''] = file.split('/');
  if (first === 'dist')
    return third.endsWith('.js') || third === '' ? `dist/${second}` : `dist/${second}/${third}`;
  return first.startsWith('@') ? `${first}/${second}` : first;
}
