import { request } from 'node:http';
import type { Sent } from '../support/http-client.js';

/** Sends requests with a `Host` of their own, which `fetch` does not allow. */
export class RawHost {
  constructor(private readonly port: number) {}

  /** @returns the status. */
  post(host: string, path: string, { key, as, json }: Sent): Promise<number | undefined> {
    return new Promise((resolve, reject) => {
      const headers = {
        host,
        'content-type': 'application/json',
        'idempotency-key': key,
        authorization: `Bearer ${JSON.stringify(as)}`,
      };
      const sending = request({ port: this.port, path, method: 'POST', headers }, (response) => {
        response.resume().once('end', () => resolve(response.statusCode));
      });
      sending.once('error', reject).end(JSON.stringify(json));
    });
  }
}
