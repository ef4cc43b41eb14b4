const neverNotified = new Int32Array(new SharedArrayBuffer(4));

/** This process stands still, as by a SIGSTOP or a blocked event loop, and leaves the processor to others. */
export function standStill(ms: number): void {
  Atomics.wait(neverNotified, 0, 0, ms);
}
