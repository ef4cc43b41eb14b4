/** BEGIN asks nothing of the server: whoever does not answer it by then is gone. */
const MAX_BEGIN_MS = 10_000;

/**
 * Waits for a transaction to begin. A network that has fallen silent would keep it, and the pool's connection with
 * it, for good.
 *
 * @param timeoutMs - milliseconds after which nobody waits for the transaction any more.
 * @param cut - ends the connection.
 * @throws what `begun` rejects with, or that it took too long: then the connection was cut.
 */
export async function beginWithin(
  timeoutMs: number,
  begun: Promise<unknown>,
  cut: () => void,
): Promise<void> {
  const ms = Math.min(timeoutMs, MAX_BEGIN_MS);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`The database has not answered BEGIN within ${ms} ms.`));
      cut();
    }, ms);
  });
  await Promise.race([begun, late]).finally(() => clearTimeout(timer));
}
