import { pay } from '../client.js';
import { payments, PAYMENTS } from '../payments.js';
import { inTurn, type Play, type Scenario } from '../scenario.js';

export const anotherUser: Scenario = {
  title: 'the same keys and bodies, another user',
  charges: PAYMENTS,
  moral: 'another caller, another payment',
  async play({ apis, firstBodies }: Play) {
    const answers = await Promise.all(
      payments.map((payment, index) => pay(inTurn(apis, index), { ...payment, user: 'bob' })),
    );
    const foreign = new Set(firstBodies.values());
    return {
      answers,
      claims: {
        'all are executed': answers.every(({ status, replayed }) => status === 201 && !replayed),
        'no response is another user’s': answers.every(({ body }) => !foreign.has(body)),
      },
    };
  },
};
