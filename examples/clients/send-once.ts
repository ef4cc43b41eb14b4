import { isFinal, pause } from './retry-rules.js';

/** Sends until the response is final: in every try the same key and the same bytes. */
export async function sendOnce(url: string, token: string, key: string, body: string) {
  const headers = {
    'content-type': 'application/json',
    authorization: `Bearer ${token}`,
    'idempotency-key': `"${key}"`,
  };
  for (let tries = 1; ; tries += 1) {
    let retryAfter: string | null = null;
    try {
      const signal = AbortSignal.timeout(20_000);
      const response = await fetch(url, { method: 'POST', headers, body, signal });
      const text = await response.text(); // a body that breaks off is a lost response
      const isReplay = response.headers.get('idempotent-replayed') === 'true';
      if (isFinal(response.status, isReplay, text)) return { status: response.status, text };
      if (tries === 10) throw new Error(`Unknown after ${tries} tries: ${response.status}`);
      retryAfter = response.headers.get('retry-after');
    } catch (error) {
      if (tries === 10) throw error; // the outcome is unknown: keep the key and ask again later
    }
    await pause(tries, retryAfter);
  }
}
