/** These statuses say nothing final about the operation. */
const RETRIED = new Set([408, 425, 429, 500, 502, 503, 504]);

/** Whether a retry with the same key would get no other response. */
export function isFinal(status: number, isReplay: boolean, body: string): boolean {
  if (isReplay) return true;
  if (status === 409) return !body.includes('"idempotency_in_progress"');
  return !RETRIED.has(status);
}

/** After the first, second, … try: what the server asks for, and a random part. */
export function pause(tries: number, retryAfter: string | null): Promise<void> {
  const seconds = Number(retryAfter ?? 0);
  const randomMs = Math.random() * Math.min(10_000, 200 * 2 ** (tries - 1));
  const ms = (Number.isNaN(seconds) ? 0 : seconds * 1_000) + randomMs;
  return new Promise((resolve) => setTimeout(resolve, ms));
}
