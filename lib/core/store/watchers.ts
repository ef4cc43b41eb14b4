export class Watchers<Name> {
  private readonly listeners = new Map<Name, Set<() => void>>();

  /** @returns whether it is the first one for this name. */
  add(name: Name, listener: () => void): boolean {
    const known = this.listeners.get(name);
    if (known !== undefined) {
      known.add(listener);
      return false;
    }
    this.listeners.set(name, new Set([listener]));
    return true;
  }

  /** @returns whether it was the last one for this name. */
  remove(name: Name, listener: () => void): boolean {
    const known = this.listeners.get(name);
    if (known === undefined || !known.delete(listener) || known.size > 0) return false;
    return this.listeners.delete(name);
  }

  notify(name: Name): void {
    for (const listener of this.listeners.get(name) ?? []) listener();
  }

  clear(): void {
    this.listeners.clear();
  }
}
