import 'reflect-metadata';
import { serve } from '../../test/support/processes/child.js';
import { Coverage } from './coverage.js';
import type { Setup, Step, Trip } from './trip.js';

const coverage = await Coverage.start();
let trip: Trip | undefined;

serve({
  open: (setup: Setup) =>
    step(async () => {
      const { openTrip } = await import('./open-trip.js');
      trip = await openTrip(setup);
    }),
  go: () => step(async () => trip?.go()),
});

/** What runs after the response of a trip counts for the next one, which is of the same kind. */
async function step(work: () => Promise<void>): Promise<Step> {
  const before = trip?.executions() ?? 0;
  await work();
  const files = await coverage.take();
  return { files, executions: (trip?.executions() ?? 0) - before };
}
