import { setTimeout as sleep } from 'node:timers/promises';

export interface Counts {
  readonly orders: number;
  readonly charged: number;
  readonly deliveries: number;
}

const POLL_MS = 500;
/** Longer than a lease, a redelivery and the start of a consumer on a busy machine together. */
const STANDSTILL_MS = 60_000;

/**
 * Prints how far the demo is, to stderr: on a terminal it replaces the line, elsewhere it prints one for each tenth of
 * the orders. Returns only by an error.
 *
 * @throws Error when nothing is charged or delivered any more, or when `isOver` is aborted.
 */
export async function showProgress(read: () => Counts, isOver: AbortSignal): Promise<never> {
  const { isTTY } = process.stderr;
  const progress = new Progress();
  if (isTTY) isOver.addEventListener('abort', () => process.stderr.write('\r\x1b[K'));
  for (;;) {
    await sleep(POLL_MS, undefined, { signal: isOver });
    const { line, isNewTenth } = progress.next(read(), performance.now());
    if (isTTY) process.stderr.write(`\r\x1b[K${line}`);
    else if (isNewTenth) process.stderr.write(`${line}\n`);
  }
}

export class Progress {
  #line = '';
  #changedAt = 0;
  #tenths = 0;

  /** @throws Error when the counts have not changed for too long. */
  next({ orders, charged, deliveries }: Counts, now: number) {
    const of = (count: number) => count.toLocaleString('en');
    const line = `${of(charged)} of ${of(orders)} orders charged, after ${of(deliveries)} deliveries`;
    if (line !== this.#line) this.#changedAt = now;
    this.#line = line;
    if (now - this.#changedAt > STANDSTILL_MS) {
      throw new Error(`Nothing has happened for ${STANDSTILL_MS / 1000} s: ${line}`);
    }
    const tenths = Math.floor((10 * charged) / orders);
    const isNewTenth = tenths > this.#tenths;
    this.#tenths = tenths;
    return { line, isNewTenth };
  }
}
