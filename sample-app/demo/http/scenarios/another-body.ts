import { pay } from '../client.js';
import { payments, PAYMENTS } from '../payments.js';
import { sequentially, type ScenarioContext, type Scenario } from '../scenario.js';

export const anotherBody: Scenario = {
  title: 'the same keys, another amount',
  charges: 0,
  lesson: 'a key is for one request',
  async run({ apis }: ScenarioContext) {
    const responses = await Promise.all(
      payments.map((payment, index) =>
        pay(sequentially(apis, index), { ...payment, amount: payment.amount + 1 }),
      ),
    );
    const rejected = responses.filter(({ status }) => status === 422);
    return { responses, checks: { 'all are rejected': rejected.length === PAYMENTS } };
  },
};
