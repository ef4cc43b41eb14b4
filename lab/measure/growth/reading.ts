/** What an application's process holds when it has nothing to do. */
export interface Reading {
  /** How many requests it had answered by then. */
  readonly requests: number;
  /** Used heap after forced collections of garbage. */
  readonly heapBytes: number;
  /** What buffers and other objects take outside of the heap. */
  readonly externalBytes: number;
  /** What the system has given to the process. */
  readonly rssBytes: number;
  /** How many there are, by what they are: listeners of each emitter, living objects, active resources by kind. */
  readonly counts: Readonly<Record<string, number>>;
}

/**
 * Says of everything that there is more of after the last requests than after the first how much that is.
 *
 * @param heapMayGrowBytes - what the heap may hold more; of all else there may be nothing more.
 */
export function growthsIn(readings: readonly Reading[], heapMayGrowBytes: number): string[] {
  const [first] = readings;
  const last = readings.at(-1);
  if (first === undefined || last === undefined || first === last) {
    throw new Error('growth is what lies between two readings');
  }
  const growths: string[] = [];
  const grownBytes = last.heapBytes - first.heapBytes;
  if (grownBytes > heapMayGrowBytes) {
    growths.push(
      `heap: ${grownBytes} B more after ${last.requests} requests than after ${first.requests}`,
    );
  }
  for (const [name, count] of Object.entries(last.counts)) {
    const before = first.counts[name] ?? 0;
    if (count > before) growths.push(`${name}: ${count} after ${before}`);
  }
  return growths;
}
