import { JSON_CODEC } from '../../../test/support/internals/codecs.js';
import { REJECTIONS } from '../../../test/support/internals/core.js';
import { valueFormat, type Call } from '../../../test/support/internals/call.js';
import { CALLER } from '../../faults/client.js';
import { FAILURES, OperationError } from './operations.js';
import type { OutcomeBody, Response, SimulatedRequest } from './request.js';

/** As a caller of `IdempotencyService.run()` does it. */
export async function serveCall(request: SimulatedRequest): Promise<void> {
  const { process, intent } = request;
  const { operation, key, content } = intent;
  const { options, name } = operation;
  const call: Call = {
    operation: name,
    transport: 'call',
    keyOperation: name,
    key,
    scope: [CALLER],
    fingerprint: operation.fingerprintOf(content),
    keep: options.outcome.keep,
    format: valueFormat(JSON_CODEC),
    options,
    clientSignal: request.disconnection.signal,
  };
  const result = await process.calls.settle(call, (context) => operation.run(request, context));
  switch (result.kind) {
    case 'value':
      request.respond(successResponse(result.value, result.isReplayed));
      return;
    case 'failure':
      request.respond(failureResponse(result.error, result.isReplayed));
      return;
    case 'rejected':
      request.respond(rejectionResponse(result.error));
  }
}

const STATUSES = new Map<string | undefined, number>(
  Object.entries(FAILURES).map(([status, message]) => [message, Number(status)]),
);

function successResponse(value: unknown, replayed: boolean): Response {
  return { status: 201, replayed, body: value as OutcomeBody };
}

export function failureResponse(error: unknown, replayed: boolean): Response {
  // The stored failure has the name and the message of the thrown one.
  const message =
    error instanceof OperationError
      ? error.message
      : (error as { failure?: { message: string } }).failure?.message;
  const status = STATUSES.get(message);
  if (status === undefined) throw error;
  return { status, code: message, replayed };
}

export function rejectionResponse(error: {
  code: string;
  retryAfterMs?: number | undefined;
}): Response {
  const { status } = REJECTIONS[error.code as keyof typeof REJECTIONS];
  const { code, retryAfterMs } = error;
  const retryAfter = retryAfterMs === undefined ? undefined : Math.ceil(retryAfterMs / 1_000);
  return { status, code, replayed: false, retryAfter };
}
