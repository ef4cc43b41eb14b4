import { GCProfiler, getHeapStatistics } from 'node:v8';

let profiler: GCProfiler | undefined;
let usedAtStart = 0;

export function startAllocations(): void {
  profiler = new GCProfiler();
  profiler.start();
  usedAtStart = getHeapStatistics().used_heap_size;
}

/** How many bytes of V8's heap have been allocated since: what is in use more, and what was collected. */
export function stopAllocations(): number {
  const used = getHeapStatistics().used_heap_size;
  const collections = profiler?.stop().statistics ?? [];
  profiler = undefined;
  return collections.reduce(
    (sum, { beforeGC, afterGC }) =>
      sum + beforeGC.heapStatistics.usedHeapSize - afterGC.heapStatistics.usedHeapSize,
    used - usedAtStart,
  );
}
