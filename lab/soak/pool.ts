/** Items of which each is used by one user at a time. */
export class Pool<Thing> {
  private constructor(private readonly free: Thing[]) {}

  /** All of them are made now, so that their number does not grow. */
  static async of<Thing>(size: number, make: () => Thing | Promise<Thing>): Promise<Pool<Thing>> {
    return new Pool(await Promise.all(Array.from({ length: size }, make)));
  }

  /** @throws Error if all of them are in use. */
  async use(work: (thing: Thing) => Promise<unknown>): Promise<void> {
    const thing = this.free.shift();
    if (thing === undefined) throw new Error('all are in use');
    await work(thing);
    this.free.push(thing);
  }
}
