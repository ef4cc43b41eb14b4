import { until } from './until.js';

/** Servers may take long to agree on a busy machine. */
const TIMEOUT_MS = 60_000;

/** Waits until `condition` holds on the servers. */
export function untilSettled(condition: () => Promise<boolean>): Promise<void> {
  return until(condition, TIMEOUT_MS);
}
