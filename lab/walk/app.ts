import 'reflect-metadata';
import { serve } from '../../test/support/processes/child.js';
import { startTrace, takeTrace } from './trace.js';
import type { Setup, Step, Trip } from './trip.js';

startTrace();
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
  return { entries: takeTrace(), executions: (trip?.executions() ?? 0) - before };
}
