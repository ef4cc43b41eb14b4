import { getEventListeners } from 'node:events';

/** Of every AbortController that this process has made since this module was loaded, for as long as it is not collected. */
let signals: WeakRef<AbortSignal>[] = [];

globalThis.AbortController = class extends AbortController {
  constructor() {
    super();
    signals.push(new WeakRef(this.signal));
  }
};

/** How many listeners the signals have that are still there. */
export function countSignalListeners(): number {
  const living = signals.flatMap((reference) => reference.deref() ?? []);
  signals = living.map((signal) => new WeakRef(signal));
  return living.reduce((sum, signal) => sum + getEventListeners(signal, 'abort').length, 0);
}
