import { hash } from 'node:crypto';
import { isSuccess, type ApiResponse } from '../../../../lab/faults/response.js';
import { NOT_KEPT, NOTHING_TOLERATED } from '../../../../lab/faults/expectations.js';
import type { Expectations } from '../../../../lab/faults/expectations.js';
import type { Lab } from '../../../../lab/faults/lab.js';
import { octets } from '../../../../lab/faults/worker/octets.js';

/** More than goes into a record. */
export const LARGE = 400_000;
export const ABOVE = 65_536;

/** What a client may get whose body the blob store does not take, does not give, or does not have. */
export const WITHOUT_BODY: Expectations = {
  ...NOTHING_TOLERATED,
  brokenConnections: true,
  outages: true,
  otherResponses: [
    ...NOTHING_TOLERATED.otherResponses,
    ...NOT_KEPT,
    '503 idempotency_outcome_unavailable',
    '500 idempotency_outcome_unreadable',
  ],
};

/** Whether it is a success with each byte of the body that its execution returned. */
export function isWhole(response: ApiResponse, bytes = LARGE): boolean {
  const { execution = '', digest } = response;
  return isSuccess(response) && digest === digestOf(bytes, execution);
}

/** The keys that some client got as a success with other bytes than those of its execution. */
export function keysWithOtherBytes({ clients }: Lab, bytes = LARGE): string[] {
  return [...clients.keys]
    .filter(([, { successes }]) =>
      [...successes].some(
        ([name, { execution = '' }]) => name !== `${execution} ${digestOf(bytes, execution)}`,
      ),
    )
    .map(([key]) => key);
}

function digestOf(bytes: number, execution: string): string {
  return hash('sha256', octets(bytes, execution), 'base64url');
}
