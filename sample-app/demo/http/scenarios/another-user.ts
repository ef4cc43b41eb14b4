import { pay } from '../client.js';
import { payments, PAYMENTS } from '../payments.js';
import { sequentially, type ScenarioContext, type Scenario } from '../scenario.js';

export const anotherUser: Scenario = {
  title: 'the same keys and bodies, another user',
  charges: PAYMENTS,
  lesson: 'another caller, another payment',
  async run({ apis, firstBodies }: ScenarioContext) {
    const responses = await Promise.all(
      payments.map((payment, index) => pay(sequentially(apis, index), { ...payment, user: 'bob' })),
    );
    const foreign = new Set(firstBodies.values());
    return {
      responses,
      checks: {
        'all are executed': responses.every(({ status, replayed }) => status === 201 && !replayed),
        'no response is another user’s': responses.every(({ body }) => !foreign.has(body)),
      },
    };
  },
};
