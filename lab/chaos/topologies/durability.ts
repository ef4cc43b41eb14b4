import type { Plan } from '../plan.js';

/** Until when enough replicas have to confirm a step: more than replication takes on a busy machine. */
const TIMEOUT_MS = 1_000;

/** The store's options for replicas to wait for. */
export function durabilityOf({ waitReplicas: count }: Plan) {
  return count === 0 ? {} : { waitReplicas: { count, timeout: TIMEOUT_MS } };
}
