import { expect } from '@jest/globals';
import { type SecretKeys, staticKeys } from 'nestjs-idempotency';
import { StandingClock } from '../../support/clocks/standing-clock.js';
import type { Clock, Outcome } from '../../support/internals/core.js';
import {
  OutcomeTransform,
  UnreadableOutcome,
  type OutcomeBinding,
} from '../../support/internals/payload.js';
import { optionsOf, OWNER, type PackOptions } from './pack-options.js';

export { optionsOf, OWNER, type PackOptions } from './pack-options.js';

/** A key of 32 bytes, all alike. */
export const keyOf = (byte: number) => Buffer.alloc(32, byte);

export const KEYS = staticKeys({ current: 'k1', keys: { k1: keyOf(1) } });

export const BINDING = {
  recordKey: 'a'.repeat(43),
  state: 'completed',
  fingerprint: 'f'.repeat(22),
} as OutcomeBinding;

/** A response of this many orders, as JSON: about 90 bytes each. */
export function orders(count: number): Outcome {
  const all = Array.from({ length: count }, (_, index) => ({
    id: `ord_${(index * 2_654_435_761) % 2 ** 32}`,
    amount: (index * 7_919) % 10_007,
    currency: 'EUR',
    customer: `cus_${(index * 40_503) % 65_536}`,
    state: 'paid',
  }));
  return outcomeOf(Buffer.from(JSON.stringify(all)));
}

export function outcomeOf(body: Uint8Array): Outcome {
  return { header: '{"status":201}', body };
}

/** An open transform, and a shorter way to call it. */
export async function opened(
  secrets?: SecretKeys,
  given: PackOptions = {},
  clock: Clock = new StandingClock(),
) {
  const options = optionsOf(given);
  const stale: unknown[] = [];
  const report = (error: unknown) => void stale.push(error);
  const transform = new OutcomeTransform(secrets, clock, report, options.dictionaries);
  await transform.open();
  return {
    transform,
    stale,
    pack: async (outcome: Outcome, binding = BINDING) =>
      transform.pack(outcome, binding, options, OWNER),
    unpack: async (outcome: Outcome, binding = BINDING, leftMs = 0) =>
      transform.unpack(outcome, binding, undefined, leftMs),
  };
}

/** Why an outcome cannot be read. Fails if it can. */
export async function reasonOf(reading: () => unknown): Promise<string> {
  try {
    await reading();
  } catch (error) {
    expect(error).toBeInstanceOf(UnreadableOutcome);
    return (error as UnreadableOutcome).reason;
  }
  throw new Error('The outcome was read.');
}

export function equal(one: Outcome, other: Outcome): boolean {
  return one.header === other.header && Buffer.compare(one.body, other.body) === 0;
}
