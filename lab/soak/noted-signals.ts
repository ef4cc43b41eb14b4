import { getEventListeners } from 'node:events';

/** Of every AbortController that this process has made since this module was loaded, until it is collected. */
let signals: WeakRef<AbortSignal>[] = [];

globalThis.AbortController = class extends AbortController {
  constructor() {
    super();
    signals.push(new WeakRef(this.signal));
  }
};

/** The number of listeners of the signals that still exist. */
export function countSignalListeners(): number {
  const living = signals.flatMap((reference) => reference.deref() ?? []);
  signals = living.map((signal) => new WeakRef(signal));
  return living.reduce((sum, signal) => sum + getEventListeners(signal, 'abort').length, 0);
}
