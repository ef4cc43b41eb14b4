import { CUT_OFF } from '../../faults/expectations.js';
import type { Fault } from './fault.js';
import { repeatedly } from './repeatedly.js';

/** The server ends some of the workers' connections. Each injection is one of them. */
export const terminate: Fault = {
  topologies: ['postgres'],
  tolerates: ({ transactional }) => (transactional ? { otherResponses: CUT_OFF } : {}),
  start({ topology, random }) {
    let ended = 0;
    const stop = repeatedly(
      () => random.integer(500, 1_500),
      async () => {
        ended += await topology.terminateBackends!(random);
      },
    );
    return { figures: () => ({ pg_terminate_backend: ended }), injections: () => ended, stop };
  },
};
