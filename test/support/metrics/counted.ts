import { IdempotencyMeter } from 'nestjs-idempotency';

/** An attempt of the operation `pay`. */
export const subject = {
  operation: 'pay',
  transport: 'http' as const,
  recordKey: 'digest' as never,
  attempt: 1,
  fencingToken: 7,
};

/** Counts events of {@link subject}, unless they say otherwise. */
export function count(meter: IdempotencyMeter, ...events: readonly object[]): IdempotencyMeter {
  for (const event of events) meter.count({ ...subject, ...event } as never);
  return meter;
}

/** A meter that has counted these events. */
export function metered(...events: readonly object[]): IdempotencyMeter {
  return count(new IdempotencyMeter(), ...events);
}

export const executed = (durationMs = 20) => ({ type: 'ended', how: 'completed', durationMs });
