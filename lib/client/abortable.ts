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
