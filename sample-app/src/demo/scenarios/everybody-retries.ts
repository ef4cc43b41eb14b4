import { pay } from '../client.js';
import { COPIES, payments, PAYMENTS } from '../payments.js';
import { inTurn, type Play, type Scenario } from '../scenario.js';

export const everybodyRetries: Scenario = {
  title: `all ${PAYMENTS * COPIES} sent again`,
  charges: 0,
  moral: 'the first response, byte for byte',
  async play({ apis, firstBodies }: Play) {
    const retries = await Promise.all(
      payments.flatMap((payment) =>
        Array.from({ length: COPIES }, async (_, copy) => ({
          key: payment.key,
          answer: await pay(inTurn(apis, copy), payment),
        })),
      ),
    );
    return {
      answers: retries.map(({ answer }) => answer),
      claims: {
        'all are replays': retries.every(({ answer }) => answer.status === 201 && answer.replayed),
        'all repeat the first body': retries.every(
          ({ key, answer }) => answer.body === firstBodies.get(key),
        ),
      },
    };
  },
};
