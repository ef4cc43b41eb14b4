import { types } from 'node:util';
import { JSON_CODEC } from '../../codecs/json/json-codec.js';
import type { OutcomeCodec } from '../../core/record/outcome-codec.js';
import type { Outcome } from '../../core/record/record.js';
import { asBuffer } from '../../core/util/as-buffer.js';
import {
  FailureReplayedError,
  hasCode,
  OperationRejectedError,
  ValueNotStorableError,
} from '../../core/util/errors.js';
import { atOnce, forget } from '../../core/util/maybe-async.js';

/** The version of what stands in an outcome's header; it tells calls' outcomes from other transports' too. */
const FORMAT = 1;

interface CallOutcomeHeader {
  readonly call: typeof FORMAT;
  readonly kind: EncodedValue['kind'] | 'emissions' | 'thrown' | 'failure' | 'not_kept';
  /** Who has written the body; nobody is named where it is JSON, or needs no codec. */
  readonly codec?: string;
}

/** What an outcome holds. */
export type DecodedOutcome =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'emissions'; readonly values: readonly unknown[] }
  /** A failure whose name and message were kept. */
  | { readonly kind: 'failure'; readonly error: FailureReplayedError }
  /** A failure of which a value was kept, to be thrown as it was. */
  | { readonly kind: 'thrown'; readonly value: unknown };

/** "It is done, its value was not kept." */
export const VALUE_NOT_KEPT = outcome('not_kept', Buffer.alloc(0));

/** "It is done, and returned nothing." */
export const NO_VALUE = outcome('undefined', Buffer.alloc(0));

/** A returned value, or why it cannot be kept. */
export function encodeValue(value: unknown, codec: OutcomeCodec): Outcome | ValueNotStorableError {
  try {
    const { kind, bytes } = encodeEmittedValue(value, codec);
    return outcome(kind, bytes, kind === 'value' ? codec : undefined);
  } catch (error) {
    return notStorable('The operation has run, but what it returned', codec, error);
  }
}

/** All values of a stream, in order, or why one of them cannot be kept. */
export function encodeEmissions(
  values: readonly unknown[],
  codec: OutcomeCodec,
): Outcome | ValueNotStorableError {
  const parts: EncodedValue[] = [];
  try {
    for (const value of values) parts.push(encodeEmittedValue(value, codec));
  } catch (error) {
    const emission = `${parts.length + 1} of ${values.length}`;
    return notStorable(`The operation has run, but its emission ${emission}`, codec, error);
  }
  return outcome('emissions', encodeFrames(parts), codec);
}

/** What is replayed of a failure: its name and message, as far as they are text. */
export function encodeFailure(error: unknown): Outcome {
  return outcome('failure', Buffer.from(JSON.stringify(describe(error))));
}

/** A failure of which `value` is all that is needed to throw the same again, or why it cannot be kept. */
export function encodeThrown(value: unknown, codec: OutcomeCodec): Outcome | ValueNotStorableError {
  try {
    return outcome('thrown', encodeFrames([encodeEmittedValue(value, codec)]), codec);
  } catch (error) {
    return notStorable('The operation has failed, but what it threw', codec, error);
  }
}

/**
 * What an outcome holds.
 *
 * @param codec - reads what it has written itself; JSON is read in any case.
 * @throws {@link OperationRejectedError} when nothing was kept, or what was cannot be read.
 */
export function decodeOutcome({ header, body }: Outcome, codec: OutcomeCodec): DecodedOutcome {
  const { call, kind, codec: writer } = parsed(header);
  if (call !== FORMAT) throw unreadable('was not kept');
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
  throw unreadable('was not kept');
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
    `was written by the codec ${JSON.stringify(name)}, and the option "codec" is ${JSON.stringify(codec.name)}: keep the former one until its outcomes have expired, or use one that reads both`,
  );
}

/** @param problem - what is the matter with the value. */
function unreadable(problem: string): OperationRejectedError {
  return new OperationRejectedError(
    `The operation was completed, its value ${problem}.`,
    'idempotency_response_not_kept',
    undefined,
  );
}

/** @param what - the beginning of a sentence: what was done, and what cannot be kept of it. */
function notStorable(what: string, codec: OutcomeCodec, cause: unknown): ValueNotStorableError {
  const reason = hasCode(cause, 'idempotency_value_not_storable')
    ? (cause as Error).message
    : // Its message may hold the value.
      `The codec ${JSON.stringify(codec.name)} failed, as the cause says.`;
  return new ValueNotStorableError(`${what} cannot be kept: ${reason}`, { cause });
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
    // Anything can be thrown, also what cannot be looked at.
    return { name: 'Error', message: '' };
  }
}

function failureIn(body: Uint8Array): { name: string; message: string } {
  return JSON_CODEC.decode(body) as { name: string; message: string };
}

/** Nothing of a header that is none of a call's. */
function parsed(header: string): Partial<CallOutcomeHeader> {
  try {
    return (JSON.parse(header) as Partial<CallOutcomeHeader> | null) ?? {};
  } catch {
    return {};
  }
}

/** By the number that stands in front of a part. */
const KINDS: readonly EncodedValue['kind'][] = ['undefined', 'value', 'bytes'];

/** The number of its kind, and its length as four bytes, the most significant one first. */
const HEAD_BYTES = 5;

/**
 * Parts one after another in one body. What tells them apart stands in the body, not in the outcome's header: a header
 * stays short, and `maxStoredBytes` counts all that grows with the number of parts.
 */
function encodeFrames(parts: readonly EncodedValue[]): Buffer {
  return Buffer.concat(parts.flatMap((part) => [headOf(part), part.bytes]));
}

/** @throws RangeError where the body ends too early, or is none. */
function decodeFrames(body: Uint8Array): EncodedValue[] {
  const bytes = asBuffer(body);
  const parts: EncodedValue[] = [];
  for (let at = 0; at < bytes.length;) {
    const kind = KINDS[bytes.readUInt8(at)];
    const start = at + HEAD_BYTES;
    at = start + bytes.readUInt32BE(at + 1);
    if (kind === undefined || at > bytes.length) throw new RangeError('The parts are damaged.');
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

/** One value, written down: bytes and `undefined` as they are, everything else by a codec. */
interface EncodedValue {
  readonly kind: 'undefined' | 'bytes' | 'value';
  readonly bytes: Uint8Array;
}

/** @throws whatever the codec throws for what it cannot express. */
function encodeEmittedValue(value: unknown, codec: OutcomeCodec): EncodedValue {
  if (value === undefined) return { kind: 'undefined', bytes: Buffer.alloc(0) };
  // Copies, as the operation may go on with what it has returned, and a caller with what was replayed.
  if (types.isUint8Array(value)) return { kind: 'bytes', bytes: Buffer.from(value) };
  const bytes: unknown = codec.encode(value);
  forget(bytes);
  if (!types.isUint8Array(bytes)) throw new TypeError('encode() did not return a Uint8Array.');
  return { kind: 'value', bytes };
}

/** @throws whatever the codec throws for what it has not written. */
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
