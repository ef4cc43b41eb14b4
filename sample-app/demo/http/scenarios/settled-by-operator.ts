import { setTimeout as sleep } from 'node:timers/promises';
import type { ApiProcess } from '../../processes/api-process.js';
import { pay, type PaymentRequest } from '../client.js';
import { LEASE_MS } from '../environment.js';
import { newPayment } from '../payments.js';
import type { Scenario } from '../scenario.js';

const OPERATOR = `Basic ${Buffer.from('mia:mia-demo-password').toString('base64')}`;

const PAUSE_MS = 200;

/**
 * Kills a process that has charged a card without having got the reply, and nobody retries. An operator finds the record in
 * the console by the client's key, finds the charge at the provider, and says so.
 */
export const settledByOperator: Scenario = {
  title: 'an operator settles an unknown outcome',
  charges: 1,
  lesson: 'the retry gets 409, and nothing runs',
  async run({ environment, apis: [, other] }) {
    const victim = await environment.startApi();
    const payment = newPayment('settled by an operator');
    const first = pay(victim, payment);
    await environment.ledger.untilCharged(payment.description);
    await victim.kill();
    const cutOff = await first;

    const path = await untilAbandoned(other, payment);
    const page = await ask(other, path);
    const settled = await ask(other, `${path}/complete`, {
      state: hidden(page, 'state'),
      fence: hidden(page, 'fence'),
      reason: 'the provider has the charge',
    });
    const retry = await pay(other, payment);
    return {
      responses: [cutOff, retry],
      checks: {
        'the client is cut off': cutOff.status === undefined,
        'the console says it is unknown': page.includes('Whether it had its effect is unknown'),
        'it says which process had it': /began .* ago in [\w.-]+:\d+/.test(page),
        'the operator completes it': settled.includes('It is done.'),
        'the retry is told that it is done':
          retry.status === 409 && retry.body.includes('idempotency_response_not_kept'),
      },
    };
  },
};

/** The way to the record, as soon as its lease is over. */
async function untilAbandoned(api: ApiProcess, { key, user }: PaymentRequest): Promise<string> {
  for (let waited = 0; waited < 4 * LEASE_MS; waited += PAUSE_MS) {
    const page = await ask(api, 'find', { key, scope: user, operation: 'payments.create' });
    const path = /href="\.\/(records\/[\w-]+)"/.exec(page)?.[1];
    if (path !== undefined && page.includes('<td>abandoned</td>')) return path;
    await sleep(PAUSE_MS);
  }
  throw new Error('The console does not find the record');
}

/** As the operator's browser does it. */
async function ask(
  api: ApiProcess,
  path: string,
  form?: Readonly<Record<string, string>>,
): Promise<string> {
  const response = await fetch(`${api.url}/admin/idempotency/${path}`, {
    headers: { authorization: OPERATOR },
    ...(form !== undefined && { method: 'POST', body: new URLSearchParams(form) }),
  });
  return response.text();
}

function hidden(page: string, name: string): string {
  return new RegExp(`name="${name}" value="(\\w+)"`).exec(page)?.[1] ?? '';
}
