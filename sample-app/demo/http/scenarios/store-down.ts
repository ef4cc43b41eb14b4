import { pay } from '../client.js';
import { newPayment } from '../payments.js';
import type { ScenarioContext, Scenario } from '../scenario.js';

export const storeDown: Scenario = {
  title: 'ten payments while Redis is stopped',
  charges: 0,
  lesson: 'better no charge than two',
  async run({ environment, apis: [, api] }: ScenarioContext) {
    await environment.redis.stop();
    const responses = await Promise.all(
      Array.from({ length: 10 }, (_, index) => pay(api, newPayment(`down ${index}`))),
    );
    return {
      responses,
      checks: {
        'all get 503 and Retry-After': responses.every(
          ({ status, retryAfterMs }) => status === 503 && retryAfterMs > 0,
        ),
      },
    };
  },
};
