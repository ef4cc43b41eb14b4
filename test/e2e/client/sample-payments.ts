import type { INestApplication } from '@nestjs/common';
import {
  idempotentFetch,
  type IdempotentResponse,
  type IdempotentFetchOptions,
} from 'nestjs-idempotency-client';
import { Ledger, type LedgerEntry } from '../../../sample-app/src/ledger/ledger.js';
import { FaultProxy } from '../../support/http/wire/fault-proxy.js';

/** The sample app behind the fault proxy. */
export class SamplePayments {
  private constructor(
    readonly proxy: FaultProxy,
    private readonly app: INestApplication,
  ) {}

  static async start(
    platform: 'express' | 'fastify',
    providerDelayMs: number,
  ): Promise<SamplePayments> {
    // The app reads its settings on import.
    process.env.STORE = 'memory';
    process.env.PROVIDER_DELAY_MS = String(providerDelayMs);
    const { createApp } = await import('../../../sample-app/src/create-app.js');
    const app = await createApp(platform);
    await app.listen(0, '127.0.0.1');
    const { port } = new URL(await app.getUrl());
    return new SamplePayments(await FaultProxy.start(Number(port)), app);
  }

  async stop(): Promise<void> {
    await this.proxy.stop();
    await this.app.close();
  }

  /** All charges since the start. */
  charges(): Promise<readonly LedgerEntry[]> {
    return this.app.get(Ledger).entries();
  }

  async pay(amount: number, options: IdempotentFetchOptions): Promise<Paid> {
    const init = {
      method: 'POST',
      headers: { authorization: 'Bearer alice-demo-token', 'content-type': 'application/json' },
      body: JSON.stringify({ amount, currency: 'EUR' }),
    };
    const response = await idempotentFetch(`${this.proxy.url}/payments`, init, options);
    return { ...response, payment: (await response.response.json()) as Paid['payment'] };
  }
}

export interface Paid extends IdempotentResponse {
  readonly payment: { readonly id: string; readonly amount: number };
}

/** Runs `work` on the numbers from 1 to `count`, `atATime` concurrently, and returns the results in order. */
export async function forEachNumber<T>(
  count: number,
  atATime: number,
  work: (number: number) => Promise<T>,
): Promise<T[]> {
  const results: T[] = [];
  let next = 0;
  const worker = async () => {
    while (next < count) {
      const index = next;
      next += 1;
      results[index] = await work(index + 1);
    }
  };
  await Promise.all(Array.from({ length: atATime }, worker));
  return results;
}
