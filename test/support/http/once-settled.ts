import { setTimeout as pause } from 'node:timers/promises';
import type { RawResponse } from './wire/raw-response.js';

/** Longer than any attempt in a test takes to settle. */
const TIMEOUT_MS = 5_000;

/** Repeats a request until it is no longer "in progress", and returns the outcome of the attempt before it. */
export async function onceSettled(send: () => Promise<RawResponse>): Promise<RawResponse> {
  const giveUpAt = performance.now() + TIMEOUT_MS;
  for (;;) {
    const response = await send();
    const isInProgress = response.text.includes('idempotency_in_progress');
    if (!isInProgress || performance.now() > giveUpAt) return response;
    await pause(20);
  }
}
