/** Fewer would cost more than they save. */
const MIN_ENTRIES = 1_000;

/**
 * A map of which every request adds an entry and deletes it. Each time a `Map` outgrows its table, it leaves the old one
 * with a reference to the new one. Once one of them is in V8's old generation, it keeps all later ones, and what they
 * hold, from being collected with the young generation. So another `Map` takes over, from time to time. With this and
 * the list of deadlines, a collection of 46 MB takes 2 ms in place of 7 while first requests are served (Node 24, 64
 * connections).
 */
export class RenewedMap<Key, Value> {
  private entries = new Map<Key, Value>();
  private added = 0;

  get size(): number {
    return this.entries.size;
  }

  get(key: Key): Value | undefined {
    return this.entries.get(key);
  }

  set(key: Key, value: Value): void {
    this.added += 1;
    if (this.added > MIN_ENTRIES && this.added > this.entries.size) {
      this.entries = new Map(this.entries);
      this.added = 0;
    }
    this.entries.set(key, value);
  }

  delete(key: Key): void {
    this.entries.delete(key);
  }

  keys(): MapIterator<Key> {
    return this.entries.keys();
  }
}
