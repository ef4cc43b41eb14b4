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
