/** `npm run example -- rate-limits`: ten executions a minute; a retry of one that has run is none. */
import { show } from '../support/show.js';
import { PaymentsController } from './payments.controller.js';
import { Payments } from './payments.js';
import { RateLimitsModule } from './rate-limits.module.js';

const payments = new Payments();
await show(
  {
    imports: [RateLimitsModule],
    controllers: [PaymentsController],
    providers: [{ provide: Payments, useValue: payments }],
  },
  async (send) => {
    const pay = (key: string) =>
      send('/payments', { key, as: { id: 'alice' }, json: { amount: 5 } });
    for (let index = 1; index <= 11; index += 1) await pay(`k${index}`);
    await pay('k1');
  },
);
console.log(`charged: ${payments.charges.length}`);
