import { CallLimits } from './call-limits.js';
import { RetryingRequest } from './retrying-request.js';
import { callSettings, type IdempotentResponse, type IdempotentFetchOptions } from './options.js';
import { isRequest } from './repeatable-request.js';

/**
 * `fetch` for one operation that must not happen twice: sends the request with an `Idempotency-Key`, and again
 * with the same key and the same bytes, until the operation's answer is there.
 *
 * Tried again are lost answers (network errors, bodies that break off, tries over `tryTimeoutMs`), 409
 * `idempotency_in_progress`, 408, 503, and by option other 5xx, 425 and 429. Everything else is the last word,
 * and so is every replay.
 *
 * @param init - as `fetch` takes it. Its signal ends the call, in a request or in a pause.
 * @returns the operation's answer: one that a repetition would not change, of whatever status.
 * @throws {@link IdempotencyProblemError} where the server's idempotency layer answered in its place.
 * @throws {@link IdempotentFetchError} where signal, deadline or number of tries ended the call before.
 * @throws TypeError where options or request cannot work, before anything is sent.
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

/** As `fetch` chooses it: `null` means none, and only where nothing is said the Request's own counts. */
function callerSignal(
  input: string | URL | Request,
  { signal }: RequestInit,
): AbortSignal | undefined {
  if (signal !== undefined) return signal ?? undefined;
  return isRequest(input) ? input.signal : undefined;
}
