import { setTimeout as delay } from 'node:timers/promises';
import type { ProtocolOptions } from 'nestjs-idempotency';
import type { OperationRequest } from '../../../support/internals/core/operation.js';
import { labClaim } from './claims.js';
import type { RemoteWorker } from './remote-worker.js';

const KEYS_AT_ONCE = 8;
const OPERATION_MS = 10;

/**
 * Sends each of these requests to every worker at once, with clients that retry until they get a final
 * response.
 *
 * @returns the requests, whose outcomes are all stored.
 */
export async function load(
  workers: readonly RemoteWorker[],
  keys: number,
  options: ProtocolOptions = {},
): Promise<OperationRequest[]> {
  const claims = Array.from({ length: keys }, () => labClaim(options));
  const waiting = [...claims];
  const client = async () => {
    for (let claim = waiting.pop(); claim !== undefined; claim = waiting.pop()) {
      const asked = claim;
      await Promise.all(workers.map((worker) => worker.insist(asked, () => delay(OPERATION_MS))));
    }
  };
  await Promise.all(Array.from({ length: KEYS_AT_ONCE }, client));
  return claims;
}
