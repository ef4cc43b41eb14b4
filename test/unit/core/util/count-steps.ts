import { Session, type Profiler } from 'node:inspector';
import type { Reading } from './readings.js';

/** For n, 2n and 4n. */
export type Steps = readonly [one: number, two: number, four: number];

type Method = (this: { readonly length: number }, ...args: unknown[]) => unknown;

const ofSelf = (self: unknown) => (self as { readonly length: number }).length;
const ofResult = (_: unknown, result: unknown) => (result as { readonly length: number }).length;
/** What `indexOf` has passed. The parser of queries in Node 24 searches from each `&` to the next. */
const ofSearch = (self: unknown, found: unknown, [, from = 0]: unknown[]) =>
  Math.max(0, (found === -1 ? ofSelf(self) : Number(found) + 1) - Number(from));

/**
 * Methods whose own work V8 does not count, and what they traverse. `slice` of a string is not among them: V8 shares
 * the characters. Nor are regular expressions: the linter checks those.
 */
const METERED: readonly [owner: object, names: string, size: typeof ofSearch][] = [
  [String.prototype, 'indexOf', ofSearch],
  [String.prototype, 'includes trim trimStart trimEnd toLowerCase split replaceAll', ofSelf],
  [Array.prototype, 'indexOf includes map filter flatMap sort splice shift join', ofSelf],
  [Array.prototype, 'concat slice flat', ofResult],
  [Array, 'from', ofResult],
  [Object, 'keys values entries', ofResult],
];

let metered = 0;
for (const [owner, names, size] of METERED) {
  const methods = owner as Record<string, Method>;
  for (const name of names.split(' ')) {
    const original = methods[name]!;
    methods[name] = function (...args) {
      const result = Reflect.apply(original, this, args);
      metered += size(this, result, args);
      return result;
    };
  }
}

// Before anything to be counted is compiled: later V8 would count functions, and no loops.
const session = new Session();
session.connect();
session.post('Profiler.enable');
session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
const { mistakes, readings } = await import('./readings.js');

/**
 * The steps of `run` before its first await: how often each function and each block ran, as V8 counts them, and the
 * length of the arguments of {@link METERED} methods. No clock, so that they are the same at every load.
 */
function stepsOf(run: () => unknown): number {
  counts();
  metered = 0;
  run();
  const steps = metered;
  return steps + counts();
}

/** Of all blocks since the last call. On the same thread the reply is there before `post` returns. */
function counts(): number {
  let scripts: readonly Profiler.ScriptCoverage[] = [];
  session.post('Profiler.takePreciseCoverage', (_, { result }) => (scripts = result));
  let sum = 0;
  for (const { url, functions } of scripts) {
    if (url === import.meta.url) continue;
    for (const { ranges } of functions) for (const { count } of ranges) sum += count;
  }
  return sum;
}

function stepsFor([, read, inputOf, least = 1_000]: Reading): Steps {
  const steps = (n: number) => {
    const input: unknown = inputOf(n);
    return stepsOf(() => {
      try {
        read(input);
      } catch {
        // A rejection is a result.
      }
    });
  };
  // What is done once, at the first call, is not counted.
  steps(least);
  return [steps(least), steps(2 * least), steps(4 * least)];
}

const allSteps = (all: readonly Reading[]) =>
  Object.fromEntries(all.map((reading) => [reading[0], stepsFor(reading)]));

process.stdout.write(
  JSON.stringify({ readings: allSteps(readings), mistakes: allSteps(mistakes) }),
);
