import { pay, payWithRetries } from '../client.js';
import { newPayment } from '../payments.js';
import type { ScenarioContext, Scenario } from '../scenario.js';

/**
 * Kills a process that has charged one card without having got the reply, and is about to charge another.
 * The process that takes over cannot tell the two apart: it asks the provider.
 */
export const killedProcess: Scenario = {
  title: 'kill -9 in the middle of two charges',
  charges: 2,
  lesson: 'taken over when the lease ended',
  async run({ environment, apis: [victim, heir] }: ScenarioContext) {
    const charged = newPayment('killed after the charge');
    const uncharged = newPayment('killed before the charge');
    const acquired = victim.reported('acquired');

    const first = pay(victim, charged);
    await environment.ledger.untilCharged(charged.description);
    const second = pay(victim, uncharged);
    await victim.untilReported('acquired', acquired + 2);
    await victim.kill();

    const cutOff = await Promise.all([first, second]);
    const retries = await Promise.all([charged, uncharged].map((it) => payWithRetries(heir, it)));
    return {
      responses: [...cutOff, ...retries.flat()],
      checks: {
        'both clients are cut off': cutOff.every(({ status }) => status === undefined),
        'both retries succeed': retries.every((responses) => responses.at(-1)?.status === 201),
        'both takeovers are reported': heir.reported('takeover') === 2,
      },
    };
  },
};
