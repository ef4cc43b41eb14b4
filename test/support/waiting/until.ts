import { setTimeout as delay } from 'node:timers/promises';

/** Waits until `condition` holds; fails after ten seconds, or `limitMs`. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  limitMs = 10_000,
): Promise<void> {
  const deadline = Date.now() + limitMs;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`timed out waiting for: ${condition.toString()}`);
    await delay(10);
  }
}

/** Servers may take long to agree on a busy machine. */
const SERVERS_LIMIT_MS = 60_000;

/** Waits until `condition` holds on the servers. */
export function untilSettled(condition: () => Promise<boolean>): Promise<void> {
  return until(condition, SERVERS_LIMIT_MS);
}
