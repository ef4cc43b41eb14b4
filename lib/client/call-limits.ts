/** What ended a call before its time. */
export type CallEnd = 'aborted' | 'deadline';

/** The two things that end a call from outside of it: the caller's signal and the deadline. */
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

  /** Aborted as soon as the call has to end. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** What ended the call; `undefined` while it may go on. */
  get ended(): CallEnd | undefined {
    return this.#ended;
  }

  /** Resolves after `ms`, or as soon as the call has ended: at once where the pause does not fit. */
  async pause(ms: number): Promise<void> {
    if (performance.now() + ms >= this.#endsAt) this.#end('deadline');
    let timer: { stop: () => void } | undefined;
    const over = new Promise<void>((resolve) => {
      timer = startTimer(ms, resolve);
    });
    // Rejects for no other reason than that the call has ended.
    await abortable(over, this.signal).catch(() => undefined);
    timer?.stop();
  }

  /** Forgets the caller's signal, which may live on for long, and the timer. */
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

/** setTimeout counts in 32 bits: a longer one fires at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Like setTimeout, but `Infinity` and what is beyond setTimeout's reach do not fire. */
export function startTimer(ms: number, fire: () => void): { stop: () => void } {
  if (ms > LONGEST_TIMER_MS) return { stop: () => undefined };
  const timer = setTimeout(fire, ms);
  return { stop: () => clearTimeout(timer) };
}

/** `work`, or a rejection with the signal's reason as soon as it is aborted, whatever becomes of `work`. */
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
