import { pay } from '../client.js';
import { COPIES, payments, PAYMENTS } from '../payments.js';
import { sequentially, type ScenarioContext, type Scenario } from '../scenario.js';

export const allClientsRetry: Scenario = {
  title: `all ${PAYMENTS * COPIES} sent again`,
  charges: 0,
  lesson: 'the first response, byte for byte',
  async run({ apis, firstBodies }: ScenarioContext) {
    const retries = await Promise.all(
      payments.flatMap((payment) =>
        Array.from({ length: COPIES }, async (_, copy) => ({
          key: payment.key,
          response: await pay(sequentially(apis, copy), payment),
        })),
      ),
    );
    return {
      responses: retries.map(({ response }) => response),
      checks: {
        'all are replays': retries.every(
          ({ response }) => response.status === 201 && response.replayed,
        ),
        'all repeat the first body': retries.every(
          ({ key, response }) => response.body === firstBodies.get(key),
        ),
      },
    };
  },
};
