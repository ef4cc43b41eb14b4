import ky from 'ky';
import { fetchWithKey } from './fetch-with-key.js';
import type { Api, Payment } from './payment.js';

export function pay({ url, token }: Api, { key, ...json }: Payment): Promise<{ id: string }> {
  return ky
    .post(url, {
      json,
      headers: { authorization: `Bearer ${token}` },
      fetch: fetchWithKey(key), // it retries: ky must not
      retry: 0,
      timeout: false,
    })
    .json();
}
