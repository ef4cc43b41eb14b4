/** What a process creates for a request. */
export interface Allocations {
  readonly promises: number;
  readonly timers: number;
}
