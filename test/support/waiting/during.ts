/** Calls `disturb` repeatedly until `work` settles. */
export async function during<T>(
  work: Promise<T>,
  injectFaults: () => Promise<unknown>,
): Promise<T> {
  const end = new AbortController();
  const disturbing = (async () => {
    while (!end.signal.aborted) await injectFaults();
  })();
  try {
    return await work;
  } finally {
    end.abort();
    await disturbing;
  }
}
