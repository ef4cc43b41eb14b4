import type { OutcomeCodec, ValueNotStorableError } from 'nestjs-idempotency';

/** @returns the codec's message about a value that it cannot write. */
export function rejection(codec: OutcomeCodec, value: unknown): ValueNotStorableError {
  try {
    codec.encode(value);
  } catch (error) {
    return error as ValueNotStorableError;
  }
  throw new Error('it was written');
}

/** Writes the value and reads it again, as a caller gets it. */
export function kept<Value>(codec: OutcomeCodec, value: Value): Value {
  return codec.decode(codec.encode(value)) as Value;
}

export function nested(levels: number, wrap: (inner: unknown) => unknown): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level += 1) value = wrap(value);
  return value;
}
