import type { Clock } from '../util/clock.js';

const LOAD_TIMEOUT_MS = 10_000;

/**
 * Asks the source of the keys, until it takes too long or `closing` is aborted: then it rejects, and so does the signal of
 * `load`.
 */
export async function loadedInTime<Loaded>(
  load: (signal: AbortSignal) => Promise<Loaded>,
  clock: Clock,
  closing: AbortSignal,
): Promise<Loaded> {
  const abort = new AbortController();
  const stop = () => abort.abort(new Error('The encryption keys were not loaded in time.'));
  const timer = clock.setTimeout(stop, LOAD_TIMEOUT_MS, undefined);
  timer.unref();
  closing.addEventListener('abort', stop);
  try {
    return await Promise.race([load(abort.signal), rejectionOf(abort.signal)]);
  } finally {
    clock.clearTimeout(timer);
    closing.removeEventListener('abort', stop);
  }
}

function rejectionOf(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error));
  });
}
