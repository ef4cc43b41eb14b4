import { pay } from '../client.js';
import { newPayment } from '../payments.js';
import type { Play, Scenario } from '../scenario.js';

export const storeDown: Scenario = {
  title: 'ten payments while Redis is stopped',
  charges: 0,
  moral: 'better no charge than two',
  async play({ stage, apis: [, api] }: Play) {
    await stage.redis.stop();
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, index) => pay(api, newPayment(`down ${index}`))),
    );
    return {
      answers,
      claims: {
        'all get 503 and Retry-After': answers.every(
          ({ status, retryAfterMs }) => status === 503 && retryAfterMs > 0,
        ),
      },
    };
  },
};
