import { setTimeout as delay } from 'node:timers/promises';
import type { ProtocolOptions, OperationRequest } from '../../../support/internals/core.js';
import { labRequest } from './requests.js';
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
  const requests = Array.from({ length: keys }, () => labRequest(options));
  const waiting = [...requests];
  const client = async () => {
    for (let request = waiting.pop(); request !== undefined; request = waiting.pop()) {
      const asked = request;
      await Promise.all(workers.map((worker) => worker.insist(asked, () => delay(OPERATION_MS))));
    }
  };
  await Promise.all(Array.from({ length: KEYS_AT_ONCE }, client));
  return requests;
}
