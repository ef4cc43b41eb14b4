import { setTimeout as delay } from 'node:timers/promises';

/** Waits until `condition` holds; fails after ten seconds. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 10_000;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`still not so: ${condition.toString()}`);
    await delay(10);
  }
}
