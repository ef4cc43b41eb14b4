/**
 * What this process knows of the store's clock: its distance from the own monotonic clock, taken anew
 * from every reply that carries the time (protocol, rule 0). Neither process' wall clock takes part.
 */
export class ServerClock {
  private offset: number | undefined;

  /** Notes that the store's clock read `serverNow` at some instant before now. */
  observe(serverNow: number): void {
    this.offset = serverNow - performance.now();
  }

  /** The store's time `inMs` from now, rounded down, or 0 (no limit) before anything was observed. */
  notAfter(inMs: number): number {
    return this.offset === undefined ? 0 : Math.floor(performance.now() + inMs + this.offset);
  }
}
