import { CallLimits } from './call-limits.js';
import { RetryingRequest } from './retrying-request.js';
import { callSettings, type IdempotentResponse, type IdempotentFetchOptions } from './options.js';
import { isRequest } from './repeatable-request.js';

/**
 * `fetch` for an operation that must not run twice: sends the request with an `Idempotency-Key`, and retries it with
 * the same key and the same bytes until it has the operation's response.
 *
 * Retried are lost responses (network errors, truncated bodies, tries over `tryTimeoutMs`), 409
 * `idempotency_in_progress`, 408, 503 and, by option, other 5xx, 425 and 429. All others are final, as is every replay.
 * @param init - as for `fetch`. Its signal ends the call, during a request or a pause.
 * @returns the operation's final response, of whatever status.
 * @throws {@link IdempotencyProblemError} if the server responded with a problem instead.
 * @throws {@link IdempotentFetchError} if signal, deadline or number of tries ended the call.
 * @throws TypeError for invalid options or an invalid request, before anything is sent.
 */
export async function idempotentFetch(
  input: string | URL | Request,
  init: RequestInit = {},
  options: IdempotentFetchOptions = {},
): Promise<IdempotentResponse> {
  const settings = callSettings(options);
  const limits = new CallLimits(callerSignal(input, init), settings.deadlineMs);
  try {
    return await new RetryingRequest(settings, limits).send(input, init);
  } finally {
    limits.close();
  }
}

/** As in `fetch`: `null` means no signal; `undefined`, that of the Request. */
function callerSignal(
  input: string | URL | Request,
  { signal }: RequestInit,
): AbortSignal | undefined {
  if (signal !== undefined) return signal ?? undefined;
  return isRequest(input) ? input.signal : undefined;
}
