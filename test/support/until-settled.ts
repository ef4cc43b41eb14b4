import { until } from '../integration/redis/support/until.js';

/** What servers have to agree on may take long on a busy machine. */
const PATIENCE_MS = 60_000;

/** Waits until servers have come to what `condition` asks for. */
export function untilSettled(condition: () => Promise<boolean>): Promise<void> {
  return until(condition, PATIENCE_MS);
}
