import { CUT_OFF } from '../../faults/expectations.js';
import type { Fault } from './fault.js';

const PART = 1 / 100;

/** The store executes commands, and their replies are lost, with their connections. */
export const lostReplies: Fault = {
  topologies: ['single', 'postgres'],
  tolerates: ({ transactional }) => (transactional ? { otherResponses: CUT_OFF } : {}),
  start({ topology: { ways }, random }) {
    for (const way of ways) way.loseReplies(() => random.chance(PART));
    const lost = () => ways.reduce((sum, { lostReplies: count }) => sum + count, 0);
    return {
      figures: () => ({ 'lost replies': lost() }),
      injections: lost,
      stop() {
        for (const way of ways) way.heal();
        return Promise.resolve();
      },
    };
  },
};
