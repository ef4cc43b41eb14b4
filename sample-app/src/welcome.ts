import { randomUUID } from 'node:crypto';
import type { Environment, Store } from './config/environment.js';

const places: Record<Store, string> = {
  memory: 'memory',
  redis: 'Redis',
  postgres: 'PostgreSQL',
};

/** The text that `npm start` prints: the API's address, a page to open, and three requests to paste. */
export function welcome(url: string, environment: Environment): string {
  const { PLATFORM, STORE, LEDGER_FILE } = environment;
  const isRefundTransactional = STORE === 'postgres' && LEDGER_FILE === undefined;
  const key = `order-${randomUUID()}`;
  const pay = (token: string) =>
    [
      `curl -i ${url}/payments`,
      `-H 'Authorization: Bearer ${token}'`,
      `-H 'Idempotency-Key: ${key}'`,
      `-H 'Content-Type: application/json'`,
      `-d '{"amount":4999,"currency":"EUR"}'`,
    ].join(' ');
  return `
Payments API on ${url} (${PLATFORM}, idempotency records in ${places[STORE]})

Open ${url} in a browser, and try to be charged twice. Or in a terminal:

1. Pay 49.99 EUR as Alice. The provider takes a moment:

${pay('alice-demo-token')}

2. The same again: the stored response at once, marked "Idempotent-Replayed: true". Alice paid once:

${pay('alice-demo-token')}

3. Bob with the same key: a separate payment:

${pay('bob-demo-token')}

The API's documentation: ${url}/docs
What an operator sees: ${url}/metrics and ${url}/health/ready
What he can settle: ${url}/admin/idempotency (mia, mia-demo-password)
${orders(environment)}
The amounts 4020, 5000 and 9999 make the provider decline, fail and hang: see sample-app/README.md.
${isRefundTransactional ? 'Each refund commits together with its record.\n' : ''}`;
}

function orders({ BROKER_URL, ORDERS_QUEUE }: Environment): string {
  if (BROKER_URL === undefined) return '';
  return `
Orders are consumed from the queue "${ORDERS_QUEUE}". Place one with the same BROKER_URL, as often as you like; it is charged once:

node sample-app/dist/src/place-order.js order-1
`;
}
