/**
 * First requests at a steady rate, begin and complete through the store, in a process of their own: settings in
 * the environment. It replies with their number when it gets the command to end.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { storePair } from '../../../../lab/measure/postgres/contestants.js';

const CONNECTIONS = 16;
const WORKERS = 4 * CONNECTIONS;

const rate = Number(process.env.RATE);
const store = postgresStore({
  url: process.env.DATABASE_URL,
  connection: { max: CONNECTIONS },
  deleteExpired: false,
});
const pair = storePair(store, Number(process.env.RETENTION_MS));

let isOver = false;
let [sent, done] = [0, 0];
process.once('message', () => (isOver = true));
const startedAt = performance.now();
await Promise.all(Array.from({ length: WORKERS }, work));
await store.close();
process.send?.({ records: done, seconds: (performance.now() - startedAt) / 1000 });
process.disconnect();

/** A late iteration does not wait, so that the load catches up after a slow moment. */
async function work(): Promise<void> {
  while (!isOver) {
    const dueAt = startedAt + (sent * 1000) / rate;
    sent += 1;
    const early = dueAt - performance.now();
    if (early > 0) await delay(early);
    await pair(randomBytes(32));
    done += 1;
  }
}
