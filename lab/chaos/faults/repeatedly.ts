import { setTimeout as delay } from 'node:timers/promises';

/**
 * Repeats an action until it is stopped.
 *
 * @param pauseMs - drawn anew before each time.
 * @returns what stops it; resolves when the last time is over, and rejects if one has failed.
 */
export function repeatedly(pauseMs: () => number, work: () => Promise<void>): () => Promise<void> {
  const end = new AbortController();
  const loop = async () => {
    for (;;) {
      await delay(pauseMs(), undefined, { signal: end.signal }).catch(() => undefined);
      if (end.signal.aborted) return;
      await work();
    }
  };
  // A fault that fails is caught nowhere: it ends the run at once, which would wait for its injections in vain.
  const done = loop();
  return () => {
    end.abort();
    return done;
  };
}
