import { pay } from '../client.js';
import { payments, PAYMENTS } from '../payments.js';
import { inTurn, type Play, type Scenario } from '../scenario.js';

export const anotherBody: Scenario = {
  title: 'the same keys, another amount',
  charges: 0,
  moral: 'a key is for one request',
  async play({ apis }: Play) {
    const answers = await Promise.all(
      payments.map((payment, index) =>
        pay(inTurn(apis, index), { ...payment, amount: payment.amount + 1 }),
      ),
    );
    const refused = answers.filter(({ status }) => status === 422);
    return { answers, claims: { 'all are rejected': refused.length === PAYMENTS } };
  },
};
