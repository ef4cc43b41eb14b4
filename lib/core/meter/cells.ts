import type { HistogramReading } from './meter-reading.js';

/** What one series is counted in, or several by an attribute. */
export interface Cell<Reading = unknown> {
  read(): Reading;
}

export class Counter {
  count = 0;

  read(): number {
    return this.count;
  }
}

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

type ReadingOf<Inner extends Cell> = ReturnType<Inner['read']>;

/** Cells by the values of an attribute: of those in `fromStart` at once, of each other value from its first event. */
export class CellsBy<Value extends string, Inner extends Cell, FromStart extends Value = never> {
  /** A map, because an object with names that vary would double the time of an event. */
  private readonly cells: Map<Value, Inner | undefined>;
  /** The next event mostly has the same value again, and comparing takes less time than a look-up. */
  private lastValue: Value | undefined;
  private lastCell: Inner | undefined;

  /** @param values - in the order in which they are read. Others come after them, as they occur. */
  constructor(
    values: readonly Value[],
    private readonly start: () => Inner,
    fromStart: readonly FromStart[],
  ) {
    this.cells = new Map(values.map((value) => [value, undefined]));
    for (const value of fromStart) this.cells.set(value, start());
  }

  at(value: Value): Inner {
    if (value !== this.lastValue || this.lastCell === undefined) {
      this.lastCell = this.cells.get(value) ?? this.begin(value);
      this.lastValue = value;
    }
    return this.lastCell;
  }

  entries(): (readonly [Value, Inner])[] {
    return [...this.cells].flatMap(([value, cell]) => (cell === undefined ? [] : [[value, cell]]));
  }

  read(): Readonly<Partial<Record<Value, ReadingOf<Inner>>> & Record<FromStart, ReadingOf<Inner>>> {
    const entries = this.entries().map(([value, cell]) => [value, cell.read()] as const);
    return Object.fromEntries(entries) as ReturnType<this['read']>;
  }

  private begin(value: Value): Inner {
    const cell = this.start();
    this.cells.set(value, cell);
    return cell;
  }
}
