import type { OutcomeCodec } from '../../core/record/outcome-codec.js';
import type { Outcome } from '../../core/record/record.js';
import type { ValueNotStorableError } from '../../core/util/errors.js';
import {
  decodeOutcome,
  encodeEmissions,
  encodeFailure,
  encodeThrown,
  encodeValue,
  NO_VALUE,
  VALUE_NOT_KEPT,
  type DecodedOutcome,
} from './call-outcome.js';

/** What is kept of values that are thrown as a way to answer (an `RpcException`), rather than as a fault. */
export interface ThrownValues {
  /** What is kept of `error`; `undefined` where only its name and message are. */
  valueOf(error: unknown): { readonly value: unknown } | undefined;
  /** What is thrown in the place of the first error. */
  errorOf(value: unknown): unknown;
}

/** What an outcome holds, in the terms of those who call. */
export type StoredResult =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'failure'; readonly error: unknown };

/** How values and failures become outcomes, and outcomes values and failures again. */
export interface OutcomeFormat {
  encode(value: unknown): Outcome | ValueNotStorableError;
  encodeFailure(error: unknown): Outcome;
  /** What is kept of an operation that is done, and whose value nobody has. */
  readonly done: Outcome;
  /** A value that was found by a recovery, in the form in which the operation gives values. */
  ofFound(value: unknown): unknown;
  /** @throws {@link OperationRejectedError} where nothing was kept. */
  decode(outcome: Outcome): StoredResult;
}

/** One value. */
export function valueFormat(codec: OutcomeCodec, thrown?: ThrownValues): OutcomeFormat {
  return {
    encode: (value) => encodeValue(value, codec),
    encodeFailure: (error) => encodedError(error, codec, thrown),
    done: VALUE_NOT_KEPT,
    ofFound: (value) => value,
    decode: (outcome) => toStoredResult(decodeOutcome(outcome, codec), thrown),
  };
}

/** All that a handler has emitted, in order. */
export function emissionsFormat(codec: OutcomeCodec, thrown?: ThrownValues): OutcomeFormat {
  return {
    encode: (values) => encodeEmissions(values as readonly unknown[], codec),
    encodeFailure: (error) => encodedError(error, codec, thrown),
    done: VALUE_NOT_KEPT,
    ofFound: (value) => [value],
    decode: (outcome) => {
      const decoded = decodeOutcome(outcome, codec);
      if (decoded.kind === 'emissions') return { kind: 'value', value: decoded.values };
      if (decoded.kind === 'value') return { kind: 'value', value: [decoded.value] };
      return toStoredResult(decoded, thrown);
    },
  };
}

/** One emission, for Nest's Kafka server takes a stream without any for a failure. */
const NOTHING: readonly unknown[] = [undefined];

/** Only the fact: nobody hears what the handler emitted. */
export function nothingFormat(codec: OutcomeCodec): OutcomeFormat {
  return {
    encode: () => NO_VALUE,
    encodeFailure,
    done: NO_VALUE,
    ofFound: () => NOTHING,
    decode: (outcome) => {
      const decoded = decodeOutcome(outcome, codec);
      return decoded.kind === 'failure'
        ? toStoredResult(decoded)
        : { kind: 'value', value: NOTHING };
    },
  };
}

function encodedError(error: unknown, codec: OutcomeCodec, thrown?: ThrownValues): Outcome {
  try {
    const kept = thrown?.valueOf(error);
    const encoded = kept && encodeThrown(kept.value, codec);
    if (encoded !== undefined && !(encoded instanceof Error)) return encoded;
  } catch {
    // An exception of the application's own that cannot be asked what it says.
  }
  return encodeFailure(error);
}

function toStoredResult(decoded: DecodedOutcome, thrown?: ThrownValues): StoredResult {
  switch (decoded.kind) {
    case 'value':
      return decoded;
    case 'emissions':
      return { kind: 'value', value: decoded.values };
    case 'failure':
      return decoded;
    case 'thrown':
      return { kind: 'failure', error: thrown?.errorOf(decoded.value) ?? decoded.value };
  }
}
