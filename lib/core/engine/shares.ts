/** Counts the places that each holder has, up to a number. Who has none takes no memory. */
export class Shares {
  private readonly taken = new Map<string, number>();

  constructor(private readonly max: number) {}

  /** @param holder - `undefined`: has no limit and is not counted. */
  isFull(holder: string | undefined): boolean {
    return holder !== undefined && (this.taken.get(holder) ?? 0) >= this.max;
  }

  take(holder: string | undefined): void {
    if (holder !== undefined) this.taken.set(holder, (this.taken.get(holder) ?? 0) + 1);
  }

  giveBack(holder: string | undefined): void {
    if (holder === undefined) return;
    const left = (this.taken.get(holder) ?? 0) - 1;
    if (left > 0) this.taken.set(holder, left);
    else this.taken.delete(holder);
  }
}
