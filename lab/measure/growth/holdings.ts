import type { EventEmitter } from 'node:events';
import { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { queryObjects } from 'node:v8';
import type { Reading } from './reading.js';
import { sum } from '../../sum.js';

type Counts = Reading['counts'];
type Emitters = Readonly<Record<string, readonly EventEmitter[]>>;

/** Longer than the second for which Node keeps the text of a Date header, and the timer that ends it. */
const QUIET_MS = 1_200;
const POLL_PAUSE_MS = 100;
/** What is not quiet by then is growth, or will be the next time. */
const TIMEOUT_MS = 30_000;

const never = setTimeout(() => undefined, 0);
clearTimeout(never);

/** Objects that keep a resource open, or a waiter pending. Node's own list lacks unref'ed timers. */
const LIVING = {
  timers: never.constructor,
  sockets: Socket,
  promises: Promise,
  'abort signals': AbortSignal,
};

/**
 * Reads what this process holds, once nothing has come or gone any more for a while.
 *
 * @param countMore - counts what else there is.
 */
export async function readHoldings(
  currentEmitters: () => Emitters,
  countMore: () => Counts = () => ({}),
): Promise<Omit<Reading, 'requests'>> {
  const count = () => ({
    ...listenersOf(currentEmitters()),
    ...activeResources(),
    ...countMore(),
  });
  await untilQuiet(count);
  // A target of WeakRef.deref() stays alive until the end of the current job; garbage is not counted.
  await delay(0);
  const living = livingObjects();
  const counts = { ...count(), ...living };
  const heapBytes = leastHeap();
  const { external, rss } = process.memoryUsage();
  return { heapBytes, externalBytes: external, rssBytes: rss, counts };
}

async function untilQuiet(count: () => Counts): Promise<void> {
  const startedAt = performance.now();
  let seen = JSON.stringify(count());
  let seenSince = startedAt;
  for (;;) {
    const now = performance.now();
    if (now - seenSince >= QUIET_MS || now - startedAt >= TIMEOUT_MS) return;
    await delay(POLL_PAUSE_MS);
    const counted = JSON.stringify(count());
    if (counted !== seen) seenSince = performance.now();
    seen = counted;
  }
}

function listenersOf(emitters: Emitters): Counts {
  const ofOne = (emitter: EventEmitter) =>
    sum(emitter.eventNames().map((event) => emitter.listenerCount(event)));
  return Object.fromEntries(
    Object.entries(emitters).map(([name, some]) => [`listeners of ${name}`, sum(some.map(ofOne))]),
  );
}

function activeResources(): Counts {
  const counts: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) {
    const name = `active ${kind}`;
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

/** Those that nothing collects: before it counts, V8 collects all that it can. */
function livingObjects(): Counts {
  return Object.fromEntries(
    Object.entries(LIVING).map(([name, constructor]) => [
      name,
      queryObjects(constructor, { format: 'count' }),
    ]),
  );
}

/** The least after three collections: what a finalizer lets go of is garbage for the next one. */
function leastHeap(): number {
  const { gc } = globalThis;
  if (gc === undefined) throw new Error('this process needs --expose-gc');
  const readings = [0, 1, 2].map(() => {
    gc();
    return process.memoryUsage().heapUsed;
  });
  return Math.min(...readings);
}
