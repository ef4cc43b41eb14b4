interface Entry<Key> {
  readonly key: Key;
  expiresAt: number;
  index: number;
}

/** Keys by expiry: a binary heap that knows each key's position: a renewed record leaves no old entry behind. */
export class ExpiryQueue<Key> {
  private readonly heap: Entry<Key>[] = [];
  private readonly entries = new Map<Key, Entry<Key>>();

  /** Adds `key`, or moves it to its new position. */
  set(key: Key, expiresAt: number): void {
    let entry = this.entries.get(key);
    if (entry === undefined) {
      entry = { key, expiresAt, index: this.heap.length };
      this.entries.set(key, entry);
      this.heap.push(entry);
    }
    entry.expiresAt = expiresAt;
    this.rise(entry);
    this.sink(entry);
  }

  /** Removes the key that expires first, if it has expired at `now`. */
  takeExpired(now: number): Key | undefined {
    const first = this.heap[0];
    if (first === undefined || first.expiresAt > now) return undefined;
    this.entries.delete(first.key);
    const last = this.heap.pop();
    if (last !== undefined && last !== first) {
      this.place(last, 0);
      this.sink(last);
    }
    return first.key;
  }

  clear(): void {
    this.heap.length = 0;
    this.entries.clear();
  }

  private rise(entry: Entry<Key>): void {
    for (;;) {
      const parent = this.heap[(entry.index - 1) >> 1];
      if (parent === undefined || parent.expiresAt <= entry.expiresAt) return;
      this.swap(entry, parent);
    }
  }

  private sink(entry: Entry<Key>): void {
    for (;;) {
      const left = this.heap[2 * entry.index + 1];
      const right = this.heap[2 * entry.index + 2];
      if (left === undefined) return;
      const child = right !== undefined && right.expiresAt < left.expiresAt ? right : left;
      if (child.expiresAt >= entry.expiresAt) return;
      this.swap(entry, child);
    }
  }

  private swap(one: Entry<Key>, other: Entry<Key>): void {
    const { index } = one;
    this.place(one, other.index);
    this.place(other, index);
  }

  private place(entry: Entry<Key>, index: number): void {
    this.heap[index] = entry;
    entry.index = index;
  }
}
