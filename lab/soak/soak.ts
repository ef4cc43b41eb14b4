import { Child } from '../../test/support/processes/child.js';
import { until } from '../../test/support/waiting/until.js';
import type { Reading } from '../measure/growth/reading.js';
import type { SoakSetup } from './setup.js';

/** What the soaked process holds after this many requests, and how they have ended so far. */
export interface SoakReading extends Reading {
  /** How often each event was emitted, by its type or the reason of its rejection. */
  readonly ends: Readonly<Record<string, number>>;
}

export interface Soaked {
  readonly readings: readonly SoakReading[];
  /** Attempts without an end, or with more than one. */
  readonly wrongEnds: readonly string[];
}

/** What the process says of its attempts. */
export interface Attempts {
  /** Begins in progress included. */
  readonly running: number;
  readonly wrongEnds: readonly string[];
  readonly transports: readonly string[];
  readonly ends: Readonly<Record<string, number>>;
  /** The meter's numbers, and those of the events. */
  readonly counted: Readonly<Record<string, number>>;
  readonly expected: Readonly<Record<string, number>>;
}

/** Asks the process once no attempt runs any more. */
export async function endedAttempts(app: Child): Promise<Attempts> {
  let attempts = await app.call<Attempts>('attempts');
  await until(async () => {
    attempts = await app.call<Attempts>('attempts');
    return attempts.running === 0;
  });
  return attempts;
}

// Counting objects is experimental in Node, which warns about it.
const NODE_OPTIONS = ['--expose-gc', '--disable-warning=ExperimentalWarning'];

/** Reads after the first half of the requests, and after all of them. */
export async function soak(setup: SoakSetup, requests: number): Promise<Soaked> {
  const app = await Child.start(new URL('process.ts', import.meta.url), {
    nodeOptions: NODE_OPTIONS,
    env: { SOAK_SETUP: JSON.stringify(setup) },
  });
  try {
    const readings: SoakReading[] = [];
    // In the first half alone: what a channel leaves behind must not hide what each of its messages leaves.
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
    const { wrongEnds } = await endedAttempts(app);
    return { readings, wrongEnds };
  } finally {
    await app.stop();
  }
}
