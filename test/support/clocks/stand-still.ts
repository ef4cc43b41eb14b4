const neverNotified = new Int32Array(new SharedArrayBuffer(4));

/** Stops this process, as by a SIGSTOP or a blocked event loop, and leaves the processor to others. */
export function standStill(ms: number): void {
  Atomics.wait(neverNotified, 0, 0, ms);
}
