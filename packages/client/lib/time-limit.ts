/** setTimeout counts in 32 bits: a longer delay fires at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** A signal that is aborted after a time, or with an outer signal. A time beyond setTimeout's range is no limit. */
export class TimeLimit {
  readonly #controller = new AbortController();
  readonly #timeout: DOMException;
  readonly #endsAt: number;
  readonly #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #abort = () => this.#controller.abort(this.outer?.reason);

  constructor(
    private readonly outer: AbortSignal | undefined,
    ms: number,
  ) {
    this.#timeout = new DOMException(`No response within ${ms} ms.`, 'TimeoutError');
    this.#endsAt = performance.now() + ms;
    this.#timer = ms > LONGEST_TIMER_MS ? undefined : setTimeout(() => this.#expire(), ms);
    if (outer?.aborted === true) this.#abort();
    else outer?.addEventListener('abort', this.#abort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether the time ended before the outer signal was aborted. */
  get isExpired(): boolean {
    return this.signal.reason === this.#timeout;
  }

  /** Resolves after `ms`, or when the signal is aborted: at once if the pause exceeds the time that is left. */
  async pause(ms: number): Promise<void> {
    if (performance.now() + ms >= this.#endsAt) this.#expire();
    const over = new TimeLimit(this.signal, ms);
    await abortable(new Promise(() => undefined), over.signal).catch(() => undefined);
    over.close();
  }

  /** Removes the timer and the listener on the outer signal, which may outlive the limit. */
  close(): void {
    clearTimeout(this.#timer);
    this.outer?.removeEventListener('abort', this.#abort);
  }

  #expire(): void {
    this.#controller.abort(this.#timeout);
  }
}

/** `work`, or a rejection with the signal's reason when it is aborted. `work` continues then. */
export async function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let stop: () => void = () => undefined;
  const aborted = new Promise<never>((_, reject) => {
    const abort = () => reject(signal.reason as Error);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
    stop = () => signal.removeEventListener('abort', abort);
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    stop();
  }
}
