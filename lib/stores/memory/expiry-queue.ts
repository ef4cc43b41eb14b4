export interface Expiring {
  readonly expiresAt: number;
  /** Written by the queue. */
  position: number;
}

/** Entries by expiry: a binary heap that each entry knows its position in, so that a renewed one leaves nothing behind. */
export class ExpiryQueue<Entry extends Expiring> {
  private readonly heap: Entry[] = [];

  add(entry: Entry): void {
    this.place(entry, this.heap.length);
    this.rise(entry);
  }

  /** Moves an entry whose expiry has changed to its new position. */
  move(entry: Entry): void {
    this.rise(entry);
    this.sink(entry);
  }

  /** Removes the entry that expires first, if it has expired at `now`. */
  takeExpired(now: number): Entry | undefined {
    const first = this.heap[0];
    if (first === undefined || first.expiresAt > now) return undefined;
    const last = this.heap.pop();
    if (last !== undefined && last !== first) {
      this.place(last, 0);
      this.sink(last);
    }
    return first;
  }

  clear(): void {
    this.heap.length = 0;
  }

  private rise(entry: Entry): void {
    for (;;) {
      const parent = this.heap[(entry.position - 1) >> 1];
      if (parent === undefined || parent.expiresAt <= entry.expiresAt) return;
      this.swap(entry, parent);
    }
  }

  private sink(entry: Entry): void {
    for (;;) {
      const left = this.heap[2 * entry.position + 1];
      const right = this.heap[2 * entry.position + 2];
      if (left === undefined) return;
      const child = right !== undefined && right.expiresAt < left.expiresAt ? right : left;
      if (child.expiresAt >= entry.expiresAt) return;
      this.swap(entry, child);
    }
  }

  private swap(one: Entry, other: Entry): void {
    const { position } = one;
    this.place(one, other.position);
    this.place(other, position);
  }

  private place(entry: Entry, position: number): void {
    this.heap[position] = entry;
    entry.position = position;
  }
}
