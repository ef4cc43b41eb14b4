import { CUT_OFF } from '../../faults/expectations.js';
import type { Fault } from './fault.js';
import { repeatedly } from './repeatedly.js';

/** All connections of one worker to the store break at once; new ones work. Each injection is such an instant. */
export const cut: Fault = {
  topologies: ['single', 'postgres'],
  tolerates: ({ transactional }) => (transactional ? { otherResponses: CUT_OFF } : {}),
  start({ topology: { ways }, random }) {
    let cuts = 0;
    const stop = repeatedly(
      () => random.integer(500, 1_500),
      () => {
        random.pick(ways).breakConnections();
        cuts += 1;
        return Promise.resolve();
      },
    );
    return {
      figures: () => ({ 'connections of a worker cut': cuts }),
      injections: () => cuts,
      stop,
    };
  },
};
