/** What a request lets a process create. */
export interface Allocations {
  readonly promises: number;
  readonly timers: number;
}
