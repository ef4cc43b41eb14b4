import type { ProtocolOptions, OperationRequest } from '../../../support/internals/core.js';
import { newRequest } from '../../../support/engine/worker.js';
import { CALLER } from '../../../../lab/faults/client.js';
import { recordKeyOf } from '../../../../lab/faults/extra-executions.js';
import { OPERATION } from '../../../../lab/faults/worker/settings.js';

/** More time than a machine takes that is busy with other tests: a lease ends because a clock has moved. */
const TIMEOUT = {
  lease: { duration: 30_000 },
  storeErrors: { commandTimeout: 5_000, saveTimeout: 5_000 },
};

/** A request with a new key, in the terms of the laboratory. */
export function labRequest(options: ProtocolOptions = {}): OperationRequest {
  const request = newRequest(TIMEOUT, options);
  const recordKey = recordKeyOf(request.key);
  return { ...request, scope: [CALLER], operation: OPERATION, recordKey };
}
