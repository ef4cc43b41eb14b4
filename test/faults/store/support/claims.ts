import type { ProtocolOptions } from 'nestjs-idempotency';
import type { OperationRequest } from '../../../support/internals/core/operation.js';
import { newRequest } from '../../../integration/engine/support/worker.js';
import { CALLER } from '../../../lab/faults/client.js';
import { recordKeyOf } from '../../../lab/faults/extra-executions.js';
import { OPERATION } from '../../../lab/faults/worker/settings.js';

/** More time than a machine takes that is busy with other tests: a lease ends because a clock has moved. */
const PATIENCE = { leaseMs: 30_000, commandTimeoutMs: 5_000, saveTimeoutMs: 5_000 };

/** A request with a new key, in the terms of the laboratory. */
export function labClaim(options: ProtocolOptions = {}): OperationRequest {
  const claim = newRequest({ ...PATIENCE, ...options });
  const recordKey = recordKeyOf(claim.key);
  return { ...claim, scope: [CALLER], operation: OPERATION, recordKey };
}
