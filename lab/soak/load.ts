import { randomUUID } from 'node:crypto';
import { KINDS, type Kind } from './operations.js';
import type { Way } from './setup.js';

/** A client that leaves does so in the middle of its operation. */
const LEAVES_AFTER_MS = 10;

/** Each of these is a burst of this many equal requests at the same time. */
const BURSTS: readonly (readonly [kind: Kind, copies: number])[] = [
  ['plain', 1],
  ['slow', 4],
  ['hasty', 3],
  ['inner', 2],
  ['outer', 2],
  ['denied', 1],
  ['failing', 2],
  ['declined', 1],
  ['recovered', 1],
];

const LEAVING = 2;

const CLIENTS = 24;

/** The maximum number of concurrent requests, without those whose clients leave. */
export const MOST_AT_ONCE = CLIENTS * Math.max(...BURSTS.map(([, copies]) => copies));

/** A burst, a replay of its first, and another content under its key; and the requests whose clients leave. */
const REQUESTS_OF_A_ROUND =
  BURSTS.reduce((sum, [, copies]) => sum + copies, 0) + KINDS.length + 1 + LEAVING;

/** Resolves when this many requests have completed, in whole rounds; `onRequest` is called for each of them. */
export async function sendAll(way: Way, requests: number, onRequest: () => void): Promise<void> {
  let rounds = Math.ceil(requests / REQUESTS_OF_A_ROUND);
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      while (rounds > 0) {
        rounds -= 1;
        await runRound(way, onRequest);
      }
    }),
  );
}

async function runRound(way: Way, onRequest: () => void): Promise<void> {
  const send = (kind: Kind, key: string, amount = 1) => {
    onRequest();
    return way.send({ kind, key, amount });
  };
  for (const [kind, copies] of BURSTS) {
    const key = randomUUID();
    await Promise.all(Array.from({ length: copies }, () => send(kind, key)));
    await send(kind, key);
    if (kind === 'plain') await send(kind, key, 2);
  }
  const key = randomUUID();
  await Promise.all(
    Array.from({ length: LEAVING }, (_, index) => {
      onRequest();
      return way.sendAndLeave({ kind: 'slow', key, amount: 1 }, LEAVES_AFTER_MS + index);
    }),
  );
}
