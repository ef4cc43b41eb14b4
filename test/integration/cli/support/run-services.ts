import { expect } from '@jest/globals';
import type { IdempotencyStore } from 'nestjs-idempotency';
import { callingApp } from '../../../support/nest/calling-app.js';

/** What the doctor says of {@link runServices}. */
export const TWO_SERVICES = '2 services use this store: billing, shop.';

/** Two services, one of them with two processes, which have ended. */
export async function runServices(open: () => IdempotencyStore): Promise<void> {
  for (const service of ['shop', 'billing', 'shop']) {
    const { nest, log } = await callingApp({}, { service, store: open() });
    await nest.close();
    expect(log.own.filter((line) => line.includes('service_not_noted'))).toEqual([]);
  }
}
