import { setTimeout as sleep } from 'node:timers/promises';
import { payPatiently } from '../client.js';
import { newPayment } from '../payments.js';
import type { Play, Scenario } from '../scenario.js';
import { PROVIDER_DELAY_MS } from '../stage.js';

/**
 * Freezes a process for longer than its lease, as a long garbage collection or a paused virtual machine
 * does. When it resumes, it is about to charge a card that was charged in the meantime.
 */
export const frozenProcess: Scenario = {
  title: 'frozen in mid-charge until the lease is over',
  charges: 1,
  moral: 'fenced off, and notified of it',
  async play({ stage, apis: [, heir] }: Play) {
    const sleeper = await stage.startApi();
    const payment = newPayment('frozen before the charge');

    const sleeping = payPatiently(sleeper, payment);
    await sleeper.untilReported('acquired', 1);
    await sleep(PROVIDER_DELAY_MS / 4);
    sleeper.signal('SIGSTOP');
    const inherited = await payPatiently(heir, payment);
    sleeper.signal('SIGCONT');
    const awoken = await sleeping;

    return {
      answers: [...inherited, ...awoken],
      claims: {
        'the retry succeeds': inherited.at(-1)?.status === 201,
        'both clients get the same response': awoken.at(-1)?.body === inherited.at(-1)?.body,
        'the frozen process reports that it was superseded':
          sleeper.reported('superseded') + sleeper.reported('lease_lost') > 0,
      },
    };
  },
};
