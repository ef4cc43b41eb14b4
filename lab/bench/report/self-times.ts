import { existsSync, readFileSync } from 'node:fs';
import type { Profiler } from 'node:inspector';
import { SourceMap } from 'node:module';
import { dirname, join, relative } from 'node:path';
import type { Row } from '../../../test/support/docs/figures/report.js';

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
  const originOf = originsIn(library);
  const names = new Map(nodes.map(({ id, callFrame }) => [id, originOf(callFrame)]));
  const places = new Map<string, number>();
  const functions = new Map<string, number>();
  let total = 0;
  for (const [i, id] of samples.entries()) {
    const { functionName, file, lineNumber } = names.get(id)!;
    if (functionName === IDLE) continue;
    const time = Math.max(0, timeDeltas[i] ?? 0);
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

/** Where functions are from: in files of `lib/`, where the library was built with maps. */
function originsIn(library: string) {
  const maps = new Map<string, SourceMap | undefined>();
  const mapOf = (file: string) => {
    if (!maps.has(file)) {
      const map = join(library, `${file}.map`);
      const isThere = file.startsWith('dist/') && existsSync(map);
      maps.set(file, isThere ? new SourceMap(JSON.parse(readFileSync(map, 'utf8'))) : undefined);
    }
    return maps.get(file);
  };
  return ({ functionName, url, lineNumber, columnNumber }: Frame) => {
    const file = shortened(url, library);
    const entry = mapOf(file)?.findEntry(lineNumber, columnNumber);
    if (entry === undefined || !('originalSource' in entry))
      return { functionName, file, lineNumber };
    const source = relative('build', join(dirname(file), entry.originalSource));
    return { functionName, file: `lib/${source}`, lineNumber: entry.originalLine };
  };
}

type Frame = Profiler.ProfileNode['callFrame'];

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
  if (first === 'lib' || first === 'dist')
    return [first, second, third].filter((part) => !/^$|\.js$/.test(part)).join('/');
  return first.startsWith('@') ? `${first}/${second}` : first;
}
