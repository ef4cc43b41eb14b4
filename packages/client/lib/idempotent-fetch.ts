import {
  IdempotencyProblemError,
  IdempotentFetchError,
  readProblem,
  type ProblemDetails,
  type UnfinishedCall,
  type UnfinishedCode,
} from './errors.js';
import {
  callSettings,
  type CallSettings,
  type IdempotentFetchOptions,
  type IdempotentResponse,
} from './options.js';
import {
  isOfAnotherAddress,
  isRequest,
  repeatableRequest,
  type RepeatableRequest,
} from './repeatable-request.js';
import { fullJitterMs, isFinal, retryAfterMs } from './retry-policy.js';
import { abortable, TimeLimit } from './time-limit.js';

/**
 * `fetch` for an operation that must not run twice: sends the request with an `Idempotency-Key`, and retries it with
 * the same key and the same bytes until it has the operation's response.
 *
 * Retried are lost responses (network errors, truncated bodies, tries over `tryTimeout`), 409
 * `idempotency_in_progress`, 408, 503, 511 and, by option, other 5xx, 425 and 429. All others are final, as is every replay; but
 * not the response of another address, to which a redirect has led.
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
  const limit = new TimeLimit(callerSignal(input, init), settings.deadline);
  try {
    return await new RetryingRequest(settings, limit).send(input, init);
  } finally {
    limit.close();
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

const WHY: Readonly<Record<UnfinishedCode, string>> = {
  idempotency_fetch_aborted: 'The call was aborted',
  idempotency_fetch_deadline: 'The call reached its deadline',
  idempotency_fetch_tries_exhausted: 'All tries failed',
  idempotency_fetch_redirected: 'Redirects led to another address',
};

/** Redirects that keep method and key reach the operation, and the next try its replay. Others never do. */
const MAX_REDIRECTED = 2;

class RetryingRequest {
  #tries = 0;
  #lastResponse: Response | undefined;
  /** Why the last try was not final: a problem or an error; `undefined` if a response's status says it. */
  #lastFailure: unknown;
  /** Responses of another address that would have been final. */
  #redirected = 0;

  constructor(
    private readonly settings: CallSettings,
    private readonly limit: TimeLimit,
  ) {}

  async send(input: string | URL | Request, init: RequestInit): Promise<IdempotentResponse> {
    const request = await this.#prepare(input, init);
    for (;;) {
      this.#tries += 1;
      const outcome = await this.#sendOnce(request);
      const result = this.#finalResult(outcome, request);
      if (result !== undefined) return result;
      this.#throwIfEnded();
      if (this.#redirected >= MAX_REDIRECTED) throw this.#error('idempotency_fetch_redirected');
      if (this.#tries >= this.settings.maxTries) throw this.#exhausted();
      await this.limit.pause(this.#pauseMs(outcome));
      this.#throwIfEnded();
    }
  }

  async #prepare(input: string | URL | Request, init: RequestInit): Promise<RepeatableRequest> {
    try {
      return await abortable(repeatableRequest(input, init, this.settings), this.limit.signal);
    } catch (error) {
      this.#throwIfEnded();
      throw error;
    }
  }

  /** Sends one request and reads its response to the end: one that breaks off is lost, and can be had by a retry. */
  async #sendOnce({ input, init }: RepeatableRequest): Promise<TryOutcome> {
    const { fetch: send = fetch, tryTimeout } = this.settings;
    const limit = new TimeLimit(this.limit.signal, tryTimeout);
    const exchange = async () => {
      const response = await send(input, { ...init, signal: limit.signal });
      return { response, problem: await readProblem(response) };
    };
    try {
      return await abortable(exchange(), limit.signal);
    } catch (error) {
      return { error };
    } finally {
      limit.close();
    }
  }

  #finalResult(outcome: TryOutcome, request: RepeatableRequest): IdempotentResponse | undefined {
    if ('error' in outcome) {
      // An ended call is not a failed try.
      if (!this.limit.signal.aborted) this.#lastFailure = outcome.error;
      return undefined;
    }
    const { response } = outcome;
    const replayed = response.headers.get(this.settings.replayHeader) === 'true';
    // A stored response is the operation's, even if it contains another service's problem.
    const problem = replayed ? undefined : outcome.problem;
    this.#lastResponse = response;
    const failure = problem && new IdempotencyProblemError(problem, this.#state());
    this.#lastFailure = failure;
    // A stored outcome never changes, not even a 500 that the server keeps.
    if (!replayed && !isFinal(response.status, problem?.code, this.settings)) return undefined;
    if (failure !== undefined) throw failure;
    // Nothing says whether the redirect kept method, body and key; a replay does.
    if (!replayed && isOfAnotherAddress(response, request)) {
      this.#redirected += 1;
      return undefined;
    }
    return { response, key: this.settings.key, replayed, tries: this.#tries };
  }

  #pauseMs(outcome: TryOutcome): number {
    const wantedMs = 'error' in outcome ? undefined : retryAfterMs(outcome.response.headers);
    return (wantedMs ?? 0) + fullJitterMs(this.#tries, this.settings);
  }

  #throwIfEnded(): void {
    const { signal, isExpired } = this.limit;
    if (!signal.aborted) return;
    throw isExpired
      ? this.#error('idempotency_fetch_deadline', this.#lastFailure)
      : this.#error('idempotency_fetch_aborted', signal.reason);
  }

  #exhausted(): IdempotentFetchError {
    if (this.#redirected > 0) return this.#error('idempotency_fetch_redirected');
    return this.#lastFailure instanceof IdempotencyProblemError
      ? this.#lastFailure
      : this.#error('idempotency_fetch_tries_exhausted', this.#lastFailure);
  }

  #error(code: UnfinishedCode, cause?: unknown): IdempotentFetchError {
    const message = `${WHY[code]} after ${this.#tries} requests, without the operation's response. Retry the same request with the same key to get its outcome.`;
    const options = cause === undefined ? undefined : { cause };
    return new IdempotentFetchError(message, code, this.#state(), options);
  }

  #state(): UnfinishedCall {
    return { key: this.settings.key, tries: this.#tries, response: this.#lastResponse };
  }
}

type TryOutcome =
  | { readonly response: Response; readonly problem: ProblemDetails | undefined }
  | { readonly error: unknown };
