import { createHash } from 'node:crypto';
import { invoice, pay } from '../client.js';
import { newPayment } from '../payments.js';
import type { ScenarioContext, Scenario } from '../scenario.js';

export const largeInvoice: Scenario = {
  title: 'an invoice of 40 MB, sent again',
  charges: 1,
  lesson: 'one number, the same 40 MB',
  async run({ apis }: ScenarioContext) {
    const payment = newPayment('invoiced');
    const paid = await pay(apis[0], payment);
    const { id } = JSON.parse(paid.body) as { readonly id: string };
    const first = await invoice(apis[0], payment, id);
    const second = await invoice(apis[1], payment, id);
    return {
      responses: [paid, digested(first), digested(second)],
      checks: {
        'the first is an invoice': first.status === 201 && first.body.length === 40_000_000,
        'the other process replays it':
          second.status === 201 && second.replayed && second.body === first.body,
      },
    };
  },
};

/** Without the 40 MB. */
function digested<Response extends { readonly body: string }>(response: Response): Response {
  return { ...response, body: createHash('sha256').update(response.body).digest('hex') };
}
