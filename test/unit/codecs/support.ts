import type { OutcomeCodec, ValueNotStorableError } from 'nestjs-idempotency';

/** @returns what the codec says of a value that it cannot write. */
export function refusal(codec: OutcomeCodec, value: unknown): ValueNotStorableError {
  try {
    codec.encode(value);
  } catch (error) {
    return error as ValueNotStorableError;
  }
  throw new Error('it was written');
}

/** As a caller gets a value: written, and read again. */
export function kept<Value>(codec: OutcomeCodec, value: Value): Value {
  return codec.decode(codec.encode(value)) as Value;
}

export function nested(levels: number, wrap: (inner: unknown) => unknown): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level += 1) value = wrap(value);
  return value;
}
