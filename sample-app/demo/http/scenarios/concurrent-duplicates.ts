import { pay } from '../client.js';
import { COPIES, payments, PAYMENTS } from '../payments.js';
import { sequentially, type ScenarioContext, type Scenario } from '../scenario.js';

export const concurrentDuplicates: Scenario = {
  title: `${PAYMENTS} payments, ${COPIES} copies of each at once`,
  charges: PAYMENTS,
  lesson: 'one charge each',
  async run({ apis, firstBodies }: ScenarioContext) {
    const responses = await Promise.all(
      payments.flatMap((payment) =>
        Array.from({ length: COPIES }, async (_, copy) => {
          const response = await pay(sequentially(apis, copy), payment);
          if (response.status === 201) firstBodies.set(payment.key, response.body);
          return response;
        }),
      ),
    );
    const executed = responses.filter(({ status, replayed }) => status === 201 && !replayed);
    return {
      responses,
      checks: {
        'one copy of each is executed': executed.length === PAYMENTS,
        'the others get 409 and Retry-After': responses.every(
          ({ status, retryAfterMs }) => status === 201 || (status === 409 && retryAfterMs > 0),
        ),
      },
    };
  },
};
