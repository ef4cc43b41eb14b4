import axios, { getAdapter, isAxiosError, isCancel, type AxiosAdapter } from 'axios';
import type { Api, Payment } from './payment.js';
import { isFinal, pause } from './retry-rules.js';

/** Below the interceptors: each try has the same headers and bytes. */
const retrying: AxiosAdapter = async (config) => {
  const send = getAdapter(axios.defaults.adapter);
  for (let tries = 1; ; tries += 1) {
    try {
      return await send(config);
    } catch (error) {
      if (!isAxiosError(error) || isCancel(error) || tries === 10) throw error;
      const { response } = error; // undefined: lost
      const isReplay = response?.headers['idempotent-replayed'] === 'true';
      if (response && isFinal(response.status, isReplay, String(response.data))) throw error;
      await pause(tries, response?.headers['retry-after'] ?? null);
    }
  }
};

const client = axios.create({ adapter: retrying, timeout: 20_000 });

export async function pay({ url, token }: Api, { key, ...payment }: Payment) {
  const headers = { Authorization: `Bearer ${token}`, 'Idempotency-Key': `"${key}"` };
  const { data } = await client.post<{ id: string }>(url, payment, { headers });
  return data;
}
