export type CallEnd = 'aborted' | 'deadline';

/** Ends a call by its caller's signal or its deadline. */
export class CallLimits {
  readonly #controller = new AbortController();
  readonly #deadline: { stop: () => void };
  readonly #endsAt: number;
  readonly #abort = () => this.#end('aborted', this.callerSignal?.reason);
  #ended: CallEnd | undefined;

  constructor(
    private readonly callerSignal: AbortSignal | undefined,
    deadlineMs: number,
  ) {
    this.#endsAt = performance.now() + deadlineMs;
    this.#deadline = startTimer(deadlineMs, () => this.#end('deadline'));
    if (callerSignal?.aborted === true) this.#abort();
    else callerSignal?.addEventListener('abort', this.#abort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get ended(): CallEnd | undefined {
    return this.#ended;
  }

  /** Resolves after `ms`, or when the call has ended: at once if the pause exceeds the deadline. */
  async pause(ms: number): Promise<void> {
    if (performance.now() + ms >= this.#endsAt) this.#end('deadline');
    let timer: { stop: () => void } | undefined;
    const over = new Promise<void>((resolve) => {
      timer = startTimer(ms, resolve);
    });
    await abortable(over, this.signal).catch(() => undefined);
    timer?.stop();
  }

  /** Removes the timer and the listener on the caller's signal, which may outlive the call. */
  close(): void {
    this.#deadline.stop();
    this.callerSignal?.removeEventListener('abort', this.#abort);
  }

  #end(by: CallEnd, reason?: unknown): void {
    if (this.#ended !== undefined) return;
    this.#ended = by;
    this.#controller.abort(reason);
  }
}

/** setTimeout counts in 32 bits: a longer delay fires at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Like setTimeout, but never fires for `Infinity` and delays beyond setTimeout's range. */
export function startTimer(ms: number, fire: () => void): { stop: () => void } {
  if (ms > LONGEST_TIMER_MS) return { stop: () => undefined };
  const timer = setTimeout(fire, ms);
  return { stop: () => clearTimeout(timer) };
}

/** `work`, or a rejection with the signal's reason when it is aborted. `work` continues then. */
export async function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, stop } = abortion(signal);
  try {
    return await Promise.race([work, aborted]);
  } finally {
    stop();
  }
}

function abortion(signal: AbortSignal): { promise: Promise<never>; stop: () => void } {
  let abort: () => void = () => undefined;
  const promise = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason as Error);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  });
  return { promise, stop: () => signal.removeEventListener('abort', abort) };
}
