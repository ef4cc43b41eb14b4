import { types } from 'node:util';
import { JSON_CODEC } from '../../codecs/json/json-codec.js';
import type { OutcomeCodec } from '../../core/record/outcome-codec.js';
import type { Outcome } from '../../core/record/record.js';
import { asBuffer } from '../../core/util/as-buffer.js';
import {
  FailureReplayedError,
  hasCode,
  rejectionError,
  ValueNotStorableError,
  type OperationRejectedError,
} from '../../core/errors/errors.js';
import { REJECTIONS } from '../../core/errors/rejections.js';
import { atOnce, forget } from '../../core/util/maybe-async.js';

/** Version of a call's outcome header; it also distinguishes it from other transports' headers. */
const FORMAT = 1;

interface CallOutcomeHeader {
  readonly call: typeof FORMAT;
  readonly kind: EncodedValue['kind'] | 'emissions' | 'thrown' | 'failure' | 'not_kept';
  /** Name of the codec that wrote the body; absent for JSON, and where no codec is needed. */
  readonly codec?: string;
}

export type DecodedOutcome =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'emissions'; readonly values: readonly unknown[] }
  /** Only the failure's name and message were stored. */
  | { readonly kind: 'failure'; readonly error: FailureReplayedError }
  /** The thrown value was stored, to be thrown again. */
  | { readonly kind: 'thrown'; readonly value: unknown };

/** The operation completed; its value was not stored. */
export const VALUE_NOT_KEPT = outcome('not_kept', Buffer.alloc(0));

/** The operation completed and returned `undefined`. */
export const NO_VALUE = outcome('undefined', Buffer.alloc(0));

/** Encodes a returned value, or returns why it cannot be stored. */
export function encodeValue(
  value: unknown,
  codec: OutcomeCodec = JSON_CODEC,
): Outcome | ValueNotStorableError {
  try {
    const { kind, bytes } = encodeEmittedValue(value, codec);
    return outcome(kind, bytes, kind === 'value' ? codec : undefined);
  } catch (error) {
    return notStorable('The operation ran, but its return value', codec, error);
  }
}

/** Encodes all values of a stream, in order, or returns why one of them cannot be stored. */
export function encodeEmissions(
  values: readonly unknown[],
  codec: OutcomeCodec,
): Outcome | ValueNotStorableError {
  const parts: EncodedValue[] = [];
  try {
    for (const value of values) parts.push(encodeEmittedValue(value, codec));
  } catch (error) {
    const emission = `${parts.length + 1} of ${values.length}`;
    return notStorable(`The operation ran, but its emitted value ${emission}`, codec, error);
  }
  return outcome('emissions', encodeFrames(parts), codec);
}

/** Encodes the failure's name and message, as far as they are strings. */
export function encodeFailure(error: unknown): Outcome {
  return outcome('failure', Buffer.from(JSON.stringify(describe(error))));
}

/** Encodes the value from which a failure is thrown again, or returns why it cannot be stored. */
export function encodeThrown(value: unknown, codec: OutcomeCodec): Outcome | ValueNotStorableError {
  try {
    return outcome('thrown', encodeFrames([encodeEmittedValue(value, codec)]), codec);
  } catch (error) {
    return notStorable('The operation failed, and the value that it threw', codec, error);
  }
}

/** @throws {@link OperationRejectedError} when no value was stored, or `outcome.codec` cannot read it; it always reads JSON. */
export function decodeOutcome({ header, body }: Outcome, codec: OutcomeCodec): DecodedOutcome {
  const { call, kind, codec: writer } = parsed(header);
  if (call !== FORMAT) throw unreadable('was not stored');
  const reader = readerOf(writer, codec);
  try {
    switch (kind) {
      case 'undefined':
      case 'bytes':
      case 'value':
        return { kind: 'value', value: decodeEmittedValue({ kind, bytes: body }, reader) };
      case 'emissions':
        return { kind, values: decodeFrames(body).map((part) => decodeEmittedValue(part, reader)) };
      case 'thrown':
        return {
          kind,
          value: decodeFrames(body).map((part) => decodeEmittedValue(part, reader))[0],
        };
      case 'failure':
        return { kind, error: new FailureReplayedError(failureIn(body)) };
      default:
        break;
    }
  } catch (cause) {
    const problem = `cannot be read by the codec ${JSON.stringify(reader.name)}`;
    throw Object.assign(unreadable(problem), { cause });
  }
  throw unreadable('was not stored');
}

/** What a replay of an outcome is in HTTP's terms. */
export function replayStatus({ header }: Outcome): number {
  const { kind } = parsed(header);
  if (kind === 'failure' || kind === 'thrown') return 500;
  return kind === 'not_kept' ? REJECTIONS.idempotency_response_not_kept.status : 200;
}

function outcome(kind: CallOutcomeHeader['kind'], body: Uint8Array, codec = JSON_CODEC): Outcome {
  const header: CallOutcomeHeader = {
    call: FORMAT,
    kind,
    ...(codec.name !== JSON_CODEC.name && { codec: codec.name }),
  };
  return { header: JSON.stringify(header), body };
}

function readerOf(writer: string | undefined, codec: OutcomeCodec): OutcomeCodec {
  const name = writer ?? JSON_CODEC.name;
  if (name === codec.name) return codec;
  if (name === JSON_CODEC.name) return JSON_CODEC;
  throw unreadable(
    `was written by the codec ${JSON.stringify(name)}, but the option "outcome.codec" is ${JSON.stringify(codec.name)}. Keep the former codec until its outcomes have expired, or use one that reads both`,
  );
}

/** @param problem - what is wrong with the value, a predicate. */
function unreadable(problem: string): OperationRejectedError {
  return rejectionError('idempotency_response_not_kept', { problem });
}

/** @param what - the start of a sentence: what the operation did, and which value cannot be stored. */
function notStorable(what: string, codec: OutcomeCodec, cause: unknown): ValueNotStorableError {
  const reason = hasCode(cause, 'idempotency_value_not_storable')
    ? (cause as Error).message
    : // Its message may contain the value.
      `The codec ${JSON.stringify(codec.name)} failed, see the cause.`;
  return new ValueNotStorableError(`${what} cannot be stored: ${reason}`, { cause });
}

function describe(error: unknown): { name: string; message: string } {
  if (typeof error === 'string') return { name: 'Error', message: error };
  try {
    const { name, message } = (error ?? {}) as { name?: unknown; message?: unknown };
    return {
      name: typeof name === 'string' ? name : 'Error',
      message: typeof message === 'string' ? message : '',
    };
  } catch {
    // A thrown object's getters may throw.
    return { name: 'Error', message: '' };
  }
}

function failureIn(body: Uint8Array): { name: string; message: string } {
  return JSON_CODEC.decode(body) as { name: string; message: string };
}

/** Empty for a header that is not JSON. */
function parsed(header: string): Partial<CallOutcomeHeader> {
  try {
    return (JSON.parse(header) as Partial<CallOutcomeHeader> | null) ?? {};
  } catch {
    return {};
  }
}

/** A frame's first byte is an index of this list. */
const KINDS: readonly EncodedValue['kind'][] = ['undefined', 'value', 'bytes'];

/** The kind in one byte, and the length in four, big-endian. */
const HEAD_BYTES = 5;

/** Encodes values as frames with kinds and lengths: headers stay short, and `outcome.maxBytes` counts all of it. */
function encodeFrames(parts: readonly EncodedValue[]): Buffer {
  return Buffer.concat(parts.flatMap((part) => [headOf(part), part.bytes]));
}

/** @throws RangeError when the body is truncated or has an unknown kind. */
function decodeFrames(body: Uint8Array): EncodedValue[] {
  const bytes = asBuffer(body);
  const parts: EncodedValue[] = [];
  for (let at = 0; at < bytes.length;) {
    const kind = KINDS[bytes.readUInt8(at)];
    const start = at + HEAD_BYTES;
    at = start + bytes.readUInt32BE(at + 1);
    if (kind === undefined || at > bytes.length)
      throw new RangeError('The stored frames are damaged.');
    parts.push({ kind, bytes: bytes.subarray(start, at) });
  }
  return parts;
}

function headOf({ kind, bytes }: EncodedValue): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt8(KINDS.indexOf(kind));
  head.writeUInt32BE(bytes.length, 1);
  return head;
}

/** One encoded value: bytes and `undefined` as they are, everything else by a codec. */
interface EncodedValue {
  readonly kind: 'undefined' | 'bytes' | 'value';
  readonly bytes: Uint8Array;
}

/** @throws the codec's error for a value that it cannot express. */
function encodeEmittedValue(value: unknown, codec: OutcomeCodec): EncodedValue {
  if (value === undefined) return { kind: 'undefined', bytes: Buffer.alloc(0) };
  // A copy: the operation may change the bytes later, as a caller may change replayed ones.
  if (types.isUint8Array(value)) return { kind: 'bytes', bytes: Buffer.from(value) };
  const bytes: unknown = codec.encode(value);
  forget(bytes);
  if (!types.isUint8Array(bytes)) throw new TypeError('encode() did not return a Uint8Array.');
  return { kind: 'value', bytes };
}

/** @throws the codec's error for bytes that it did not write. */
function decodeEmittedValue({ kind, bytes }: EncodedValue, codec: OutcomeCodec): unknown {
  switch (kind) {
    case 'undefined':
      return undefined;
    case 'bytes':
      return Buffer.from(bytes);
    case 'value':
      return atOnce('codec', codec.decode(bytes));
  }
}
