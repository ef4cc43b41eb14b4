import { magicAmounts } from '../../../src/provider/magic-amounts.js';
import { pay } from '../client.js';
import { newPayment } from '../payments.js';
import type { ScenarioContext, Scenario } from '../scenario.js';

export const declinedCard: Scenario = {
  title: 'a declined card, sent again',
  charges: 0,
  lesson: 'a declined payment is replayed',
  async run({ apis }: ScenarioContext) {
    const payment = newPayment('declined', magicAmounts.declined);
    const first = await pay(apis[0], payment);
    const second = await pay(apis[1], payment);
    return {
      responses: [first, second],
      checks: {
        'the card is declined': first.status === 402 && !first.replayed,
        'the 402 is replayed':
          second.status === 402 && second.replayed && second.body === first.body,
      },
    };
  },
};
