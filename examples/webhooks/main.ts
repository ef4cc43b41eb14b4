/** `npm run example -- webhooks`: the provider delivers an event twice, and somebody else forges one. */
import { createHmac } from 'node:crypto';
import { show } from '../support/show.js';
import { Subscriptions } from './subscriptions.js';
import { WEBHOOK_SECRET } from './webhook-signature.guard.js';
import { WebhooksController } from './webhooks.controller.js';

const SECRET = 'whsec_example';
const extended: string[] = [];
const subscriptions: Subscriptions = {
  extend: ({ subscription }) => Promise.resolve(void extended.push(subscription)),
};

/** The header that a sender with this secret makes. */
function signed(json: object, secret: string) {
  const seconds = Math.floor(Date.now() / 1000);
  const digest = createHmac('sha256', secret).update(`${seconds}.${JSON.stringify(json)}`);
  return { 'webhook-signature': `t=${seconds},v1=${digest.digest('hex')}` };
}

await show(
  {
    controllers: [WebhooksController],
    providers: [
      { provide: Subscriptions, useValue: subscriptions },
      { provide: WEBHOOK_SECRET, useValue: SECRET },
    ],
  },
  async (send) => {
    for (const [subscription, secret] of [
      ['sub_1', SECRET],
      ['sub_1', SECRET],
      ['sub_2', 'another secret'],
    ] as const) {
      const json = { id: `evt_${subscription}`, type: 'invoice.paid', data: { subscription } };
      await send('/webhooks/payments', { key: 'unused', json, headers: signed(json, secret) });
    }
  },
);
console.log(`extended: ${extended.join(', ')}`);
