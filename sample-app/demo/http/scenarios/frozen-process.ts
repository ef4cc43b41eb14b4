import { setTimeout as sleep } from 'node:timers/promises';
import { payWithRetries } from '../client.js';
import { newPayment } from '../payments.js';
import type { ScenarioContext, Scenario } from '../scenario.js';
import { PROVIDER_DELAY_MS } from '../environment.js';

/**
 * Freezes a process for longer than its lease, as a long garbage collection or a paused virtual machine
 * does. When it resumes, it is about to charge a card that was charged in the meantime.
 */
export const frozenProcess: Scenario = {
  title: 'frozen in mid-charge until the lease is over',
  charges: 1,
  lesson: 'fenced off, and notified of it',
  async run({ environment, apis: [, heir] }: ScenarioContext) {
    const sleeper = await environment.startApi();
    const payment = newPayment('frozen before the charge');

    const sleeping = payWithRetries(sleeper, payment);
    await sleeper.untilReported('acquired', 1);
    await sleep(PROVIDER_DELAY_MS / 4);
    sleeper.signal('SIGSTOP');
    const inherited = await payWithRetries(heir, payment);
    sleeper.signal('SIGCONT');
    const awoken = await sleeping;

    return {
      responses: [...inherited, ...awoken],
      checks: {
        'the retry succeeds': inherited.at(-1)?.status === 201,
        'both clients get the same response': awoken.at(-1)?.body === inherited.at(-1)?.body,
        'the frozen process reports that it was superseded':
          sleeper.reported('superseded') + sleeper.reported('lease_lost') > 0,
      },
    };
  },
};
