import type { Random } from '../../../test/integration/differential/random.js';

/** What comes first at one instant, as in Node's event loop: the code that was running, timers, input, immediates. */
export const CONTINUATION = -1;
export const TIMERS = 0;
export const INPUT = 1;
export const IMMEDIATES = 2;

export type Phase = typeof CONTINUATION | typeof TIMERS | typeof INPUT | typeof IMMEDIATES;

/** Something that will happen at a time. */
export interface Scheduled {
  at: number;
  readonly phase: Phase;
  /** Drawn: which of several at one instant comes first. */
  tie: number;
  /** `undefined` once it has happened or was canceled. */
  run: (() => void) | undefined;
}

/** Real immediates that are set together: each drains ticks and microtasks. */
const IMMEDIATES_AT_ONCE = 100;

/** Virtual time. Chooses the next event only when ticks and microtasks have drained. */
export class Scheduler {
  /** Milliseconds since the start. */
  now = 0;
  steps = 0;
  private readonly heap: Scheduled[] = [];
  private sequence = 0;

  constructor(private readonly random: Random) {}

  at(time: number, phase: Phase, run: () => void): Scheduled {
    const event: Scheduled = { at: Math.max(time, this.now), phase, tie: 0, run };
    this.push(event);
    return event;
  }

  after(ms: number, run: () => void): Scheduled {
    return this.at(this.now + ms, INPUT, run);
  }

  /** Moves an event that has not happened. */
  push(event: Scheduled): void {
    this.sequence += 1;
    // Immediates keep their order.
    event.tie = event.phase === IMMEDIATES ? this.sequence : this.random.fraction();
    const { heap } = this;
    let index = heap.length;
    heap.push(event);
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!isBefore(event, heap[parent]!)) break;
      heap[index] = heap[parent]!;
      index = parent;
    }
    heap[index] = event;
  }

  /** Runs events one by one until none is left, or `isOver`. */
  run(isOver: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      let hasEnded = false;
      const end = (how: () => void) => {
        hasEnded = true;
        how();
      };
      const step = () => {
        if (hasEnded) return;
        const event = isOver() ? undefined : this.next();
        if (event?.run === undefined) {
          end(resolve);
          return;
        }
        this.now = event.at;
        this.steps += 1;
        const { run } = event;
        event.run = undefined;
        try {
          run();
        } catch (error: unknown) {
          end(() => {
            reject(error instanceof Error ? error : new Error(String(error)));
          });
        }
      };
      const fill = () => {
        if (hasEnded) return;
        for (let set = 0; set < IMMEDIATES_AT_ONCE; set += 1) setImmediate(step);
        setImmediate(fill);
      };
      fill();
    });
  }

  private next(): Scheduled | undefined {
    const { heap } = this;
    for (;;) {
      const first = heap[0];
      if (first === undefined) return undefined;
      const last = heap.pop()!;
      if (heap.length > 0) this.sink(last);
      if (first.run !== undefined) return first;
    }
  }

  private sink(event: Scheduled): void {
    const { heap } = this;
    const { length } = heap;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= length) break;
      if (child + 1 < length && isBefore(heap[child + 1]!, heap[child]!)) child += 1;
      if (!isBefore(heap[child]!, event)) break;
      heap[index] = heap[child]!;
      index = child;
    }
    heap[index] = event;
  }
}

function isBefore(one: Scheduled, other: Scheduled): boolean {
  if (one.at !== other.at) return one.at < other.at;
  return one.phase === other.phase ? one.tie < other.tie : one.phase < other.phase;
}
