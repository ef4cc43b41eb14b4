import type { HistogramReading } from './meter-reading.js';

/** Counts durations. */
export class Histogram {
  private readonly counts: number[];
  private sum = 0;

  /** @param bounds - in seconds: the upper bounds, inclusive, of all buckets but the last. */
  constructor(private readonly bounds: readonly number[]) {
    this.counts = new Array<number>(bounds.length + 1).fill(0);
  }

  add(ms: number): void {
    const { bounds, counts } = this;
    const seconds = ms / 1_000;
    let bucket = 0;
    while (seconds > (bounds[bucket] ?? Infinity)) bucket += 1;
    counts[bucket] = (counts[bucket] ?? 0) + 1;
    this.sum += seconds;
  }

  read(): HistogramReading {
    const { bounds, sum } = this;
    const counts = [...this.counts];
    const count = counts.reduce((all, one) => all + one, 0);
    return { bounds, counts, count, sum };
  }
}
