import { Child } from '../support/child.js';
import type { Reading } from '../lab/measure/growth/reading.js';
import type { SoakSetup } from './setup.js';

/** What the soaked process holds after so many requests, and how they have ended until then. */
export interface SoakReading extends Reading {
  /** How often it was told of what, by type of event or reason of refusal. */
  readonly ends: Readonly<Record<string, number>>;
}

// How it counts objects is an experiment of Node's, which says so.
const NODE_OPTIONS = ['--expose-gc', '--disable-warning=ExperimentalWarning'];

/** Reads after the first half of the requests, and after all of them. */
export async function soak(setup: SoakSetup, requests: number): Promise<SoakReading[]> {
  const app = await Child.start(new URL('process.ts', import.meta.url), {
    nodeOptions: NODE_OPTIONS,
    env: { SOAK_SETUP: JSON.stringify(setup) },
  });
  try {
    const readings: SoakReading[] = [];
    // In the first half alone: what a channel leaves behind is not to hide what each of its messages does.
    await app.call('send', requests / 4);
    await app.call('disconnect');
    for (const [already, more] of [
      [requests / 4, requests / 4],
      [requests / 2, requests / 2],
    ] as const) {
      await app.call('send', more);
      const reading = await app.call<Omit<SoakReading, 'requests'>>('read');
      readings.push({ requests: already + more, ...reading });
    }
    return readings;
  } finally {
    await app.stop();
  }
}
