import type { MutationOptions } from '@tanstack/query-core';
import { fetchWithKey } from './fetch-with-key.js';
import type { Api, Payment } from './payment.js';

/**
 * For `useMutation(payments(api))`. The key is a variable: the retries of a mutation have the same, and so has one that
 * was stored while the browser was offline and is resumed after a reload.
 */
export function payments({ url, token }: Api): MutationOptions<{ id: string }, Error, Payment> {
  return {
    mutationKey: ['payments'],
    mutationFn: async ({ key, ...payment }) => {
      const response = await fetchWithKey(key)(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
        body: JSON.stringify(payment),
      });
      if (!response.ok) throw new Error(`Not paid: ${response.status}`);
      return (await response.json()) as { id: string };
    },
  };
}
