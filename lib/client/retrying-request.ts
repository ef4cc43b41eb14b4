import { abortable, startTimer, type CallLimits } from './call-limits.js';
import {
  IdempotencyProblemError,
  IdempotentFetchError,
  problemIn,
  type ProblemDetails,
  type UnfinishedCall,
  type UnfinishedCode,
} from './errors.js';
import type { CallSettings, IdempotentResponse } from './options.js';
import { RepeatableRequest } from './repeatable-request.js';
import { readToEnd } from './response-body.js';
import { fullJitterMs, isSettled, retryAfterMs } from './retry-policy.js';

const WHY: Readonly<Record<UnfinishedCode, string>> = {
  idempotency_fetch_aborted: 'The call was aborted',
  idempotency_fetch_deadline: 'The call reached its deadline',
  idempotency_fetch_tries_exhausted: 'All tries failed',
};

export class RetryingRequest {
  #tries = 0;
  #lastResponse: Response | undefined;
  /** Why the last try was not final: a problem or an error; `undefined` if a response's status says it. */
  #lastFailure: unknown;

  constructor(
    private readonly settings: CallSettings,
    private readonly limits: CallLimits,
  ) {}

  async send(input: string | URL | Request, init: RequestInit): Promise<IdempotentResponse> {
    const request = await this.#prepare(input, init);
    const { signal } = this.limits;
    const { fetch: send = fetch, tryTimeoutMs, maxTries } = this.settings;
    for (;;) {
      this.#tries += 1;
      const outcome = await tryOnce((ofTry) => request.send(send, ofTry), signal, tryTimeoutMs);
      const result = this.#finalResult(outcome);
      if (result !== undefined) return result;
      if (this.limits.ended !== undefined) throw this.#unfinished();
      if (this.#tries >= maxTries) throw this.#exhausted();
      await this.limits.pause(this.#pauseMs(outcome));
      if (signal.aborted) throw this.#unfinished();
    }
  }

  async #prepare(input: string | URL | Request, init: RequestInit): Promise<RepeatableRequest> {
    const { keyHeader, keyField, bufferStream } = this.settings;
    const field = { name: keyHeader, value: keyField };
    try {
      const preparing = RepeatableRequest.of(input, init, field, bufferStream);
      const request = await abortable(preparing, this.limits.signal);
      // Another fetch may accept other URLs.
      if (this.settings.fetch === undefined) request.check();
      return request;
    } catch (error) {
      throw this.limits.ended === undefined ? error : this.#unfinished();
    }
  }

  #finalResult(outcome: TryOutcome): IdempotentResponse | undefined {
    if (outcome.kind === 'failed') {
      // An ended call is not a failed try.
      if (this.limits.ended === undefined) this.#lastFailure = outcome.error;
      return undefined;
    }
    const { response } = outcome;
    const replayed = response.headers.get(this.settings.replayHeader) === 'true';
    // A stored response is the operation's, even if it contains another service's problem.
    const problem = replayed ? undefined : outcome.problem;
    this.#lastResponse = response;
    this.#lastFailure = problem && new IdempotencyProblemError(problem, this.#state());
    if (!isSettled({ status: response.status, replayed, problem }, this.settings)) return undefined;
    if (this.#lastFailure !== undefined) throw this.#lastFailure as IdempotencyProblemError;
    return { response, key: this.settings.key, replayed, tries: this.#tries };
  }

  #pauseMs(outcome: TryOutcome): number {
    const asked = outcome.kind === 'responded' ? retryAfterMs(outcome.response.headers) : undefined;
    return (asked ?? 0) + fullJitterMs(this.#tries, this.settings);
  }

  #unfinished(): IdempotentFetchError {
    return this.limits.ended === 'aborted'
      ? this.#error('idempotency_fetch_aborted', this.limits.signal.reason)
      : this.#error('idempotency_fetch_deadline', this.#lastFailure);
  }

  #exhausted(): IdempotentFetchError {
    return this.#lastFailure instanceof IdempotencyProblemError
      ? this.#lastFailure
      : this.#error('idempotency_fetch_tries_exhausted', this.#lastFailure);
  }

  #error(code: UnfinishedCode, cause: unknown): IdempotentFetchError {
    const message = `${WHY[code]} after ${this.#tries} requests, without the operation's response. Retry the same request with the same key to get its outcome.`;
    return new IdempotentFetchError(
      message,
      code,
      this.#state(),
      cause === undefined ? undefined : { cause },
    );
  }

  #state(): UnfinishedCall {
    return { key: this.settings.key, tries: this.#tries, response: this.#lastResponse };
  }
}

type TryOutcome =
  | {
      readonly kind: 'responded';
      readonly response: Response;
      readonly problem: ProblemDetails | undefined;
    }
  | { readonly kind: 'failed'; readonly error: unknown };

/** Sends one request and reads its response to the end: one that breaks off is lost, and can be had by a retry. */
async function tryOnce(
  send: (signal: AbortSignal) => Promise<Response>,
  signal: AbortSignal,
  timeoutMs: number,
): Promise<TryOutcome> {
  const controller = new AbortController();
  const abort = () => controller.abort(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  const timer = startTimer(timeoutMs, () =>
    controller.abort(new DOMException(`No response within ${timeoutMs} ms.`, 'TimeoutError')),
  );
  try {
    return await abortable(toOutcome(send(controller.signal)), controller.signal);
  } catch (error) {
    return { kind: 'failed', error };
  } finally {
    timer.stop();
    signal.removeEventListener('abort', abort);
  }
}

async function toOutcome(sent: Promise<Response>): Promise<TryOutcome> {
  const response = await sent;
  await readToEnd(response);
  return { kind: 'responded', response, problem: await problemIn(response) };
}
