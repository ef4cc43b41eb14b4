import { pay } from '../client.js';
import { COPIES, payments, PAYMENTS } from '../payments.js';
import { inTurn, type Play, type Scenario } from '../scenario.js';

export const concurrentDuplicates: Scenario = {
  title: `${PAYMENTS} payments, ${COPIES} copies of each at once`,
  charges: PAYMENTS,
  moral: 'one charge each',
  async play({ apis, firstBodies }: Play) {
    const answers = await Promise.all(
      payments.flatMap((payment) =>
        Array.from({ length: COPIES }, async (_, copy) => {
          const answer = await pay(inTurn(apis, copy), payment);
          if (answer.status === 201) firstBodies.set(payment.key, answer.body);
          return answer;
        }),
      ),
    );
    const executed = answers.filter(({ status, replayed }) => status === 201 && !replayed);
    return {
      answers,
      claims: {
        'one copy of each is executed': executed.length === PAYMENTS,
        'the others get 409 and Retry-After': answers.every(
          ({ status, retryAfterMs }) => status === 201 || (status === 409 && retryAfterMs > 0),
        ),
      },
    };
  },
};
