import type { OptionObserver } from '../../core/options/option-checks.js';
import type { OutcomeCodec } from '../../core/record/outcome-codec.js';
import type { Outcome } from '../../core/record/record.js';
import type { ValueNotStorableError } from '../../core/errors/errors.js';
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

/** Stores errors that are thrown as a reply to the client, such as an `RpcException`. */
export interface ThrownValues {
  /** What is stored of `error`; `undefined`: only its name and message. */
  valueOf(error: unknown): { readonly value: unknown } | undefined;
  /** The error that a replay throws. */
  errorOf(value: unknown): unknown;
}

export type StoredResult =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'failure'; readonly error: unknown };

/** Encodes values and failures as outcomes, and decodes them. */
export interface OutcomeFormat {
  encode(value: unknown): Outcome | ValueNotStorableError;
  encodeFailure(error: unknown, observer: OptionObserver): Outcome;
  /** The outcome of an operation that completed and whose value is unavailable. */
  readonly done: Outcome;
  /** A recovered value, in the form in which the operation returns values. */
  ofFound(value: unknown): unknown;
  /** @throws {@link OperationRejectedError} when no value was stored. */
  decode(outcome: Outcome): StoredResult;
}

export function valueFormat(codec: OutcomeCodec, thrown?: ThrownValues): OutcomeFormat {
  return {
    encode: (value) => encodeValue(value, codec),
    encodeFailure: (error, observer) => encodedError(error, codec, thrown, observer),
    done: VALUE_NOT_KEPT,
    ofFound: (value) => value,
    decode: (outcome) => toStoredResult(decodeOutcome(outcome, codec), thrown),
  };
}

/** Stores all values that a handler emits, in order. */
export function emissionsFormat(codec: OutcomeCodec, thrown?: ThrownValues): OutcomeFormat {
  return {
    encode: (values) => encodeEmissions(values as readonly unknown[], codec),
    encodeFailure: (error, observer) => encodedError(error, codec, thrown, observer),
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

/** One emitted value: Nest's Kafka server takes an empty stream for a failure. */
const NOTHING: readonly unknown[] = [undefined];

/** Stores only that the handler completed: no client gets its values. */
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

function encodedError(
  error: unknown,
  codec: OutcomeCodec,
  thrown: ThrownValues | undefined,
  observer: OptionObserver,
): Outcome {
  try {
    const kept = thrown?.valueOf(error);
    if (kept !== undefined) {
      const encoded = encodeThrown(kept.value, codec);
      if (!(encoded instanceof Error)) return encoded;
      observer.optionFailed('response', encoded);
    }
  } catch (failure) {
    // The application's own exception class threw in getError().
    observer.optionFailed('response', failure);
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
