/** Counts, and resolves the waiters of a number when it is reached: a test needs no sleep then. */
export class Tally {
  #count = 0;
  #waiting: { readonly wanted: number; readonly resolve: () => void }[] = [];

  get count(): number {
    return this.#count;
  }

  add(): number {
    this.#count += 1;
    for (const { wanted, resolve } of this.#waiting) if (this.#count >= wanted) resolve();
    this.#waiting = this.#waiting.filter(({ wanted }) => wanted > this.#count);
    return this.#count;
  }

  reached(wanted: number): Promise<void> {
    if (this.#count >= wanted) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ wanted, resolve }));
  }
}
