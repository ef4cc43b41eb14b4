import { isUtf8 } from 'node:buffer';
import { bytesOf, type Outcome } from '../record/record.js';
import { asBuffer } from '../util/as-buffer.js';
import { UnreadableOutcome } from './unreadable-outcome.js';

/** The header of an outcome whose body is a frame. No transport's header is so short. */
export const FRAME_HEADER = '2';

const VERSION = 0x02;

const COMPRESSION = 0b00_0011;
const SEALED = 0b00_0100;
const POINTER = 0b00_1000;
const DICTIONARY = 0b01_0000;
const ENDS_EARLY = 0b10_0000;
const RESERVED = 0b1100_0000;

/** In the order of their codes in the flags; code 0 is none. */
export const ALGORITHMS = ['deflate', 'brotli', 'zstd'] as const;

export type Algorithm = (typeof ALGORITHMS)[number];

export const SALT_BYTES = 8;
export const NONCE_BYTES = 12;
export const TAG_BYTES = 16;
export const CHECKSUM_BYTES = 4;
const END_BYTES = 6;

/** What a compressed content can have in clear: the largest body that is stored, and a header. */
export const MAX_CLEAR_BYTES = 67_108_864 + 1_048_576;

export const KEY_ID = /^[A-Za-z0-9._-]{1,32}$/;

/** How the content of a frame is stored. */
export interface FrameHead {
  readonly seal?: SealHead | undefined;
  readonly compression?: CompressionHead | undefined;
  /** Whether a {@link BlobPointer} stands in the place of the body. */
  readonly isPointer: boolean;
  /**
   * How many milliseconds before its record the outcome ends: from then on, only that the operation is done is told. Not an
   * instant, as the store's clock alone measures how much of the retention is left.
   */
  readonly endsEarlyMs?: number | undefined;
}

export interface SealHead {
  readonly keyId: string;
  readonly salt: Uint8Array;
  readonly nonce: Uint8Array;
}

export interface CompressionHead {
  readonly algorithm: Algorithm;
  /**
   * The length of the content before it was compressed: what a reader inflates at most, and exactly. 0 with a pointer, which
   * tells the length of the body.
   */
  readonly clearBytes: number;
  readonly dictionary?: DictionaryHead;
}

export interface DictionaryHead {
  readonly id: number;
  /** The beginning of its SHA-256: deflate would give wrong bytes with a wrong dictionary. */
  readonly checksum: Uint8Array;
}

/**
 * The head of a frame. All integers are big-endian.
 *
 * ```
 * u8 version (2), u8 flags: bits 0–1 compression (1 deflate, 2 brotli, 3 zstd), 2 sealed, 3 pointer, 4 dictionary,
 *    5 ends early
 * [sealed]     u8 n, n ASCII bytes of the key's id, 8 bytes of salt, 12 bytes of nonce
 * [compressed] u32 clear length of the content; 0 with a pointer, which tells it
 * [dictionary] u8 id, 4 bytes of its checksum
 * [ends early] u48 milliseconds before the end of the record
 * ```
 *
 * The content follows to the end: `seal(compress(u32 n, n bytes of the transport's header, body))`. Sealed, it ends with
 * a tag of 16 bytes. With a pointer, the content is not compressed, and has a {@link BlobPointer} in place of the body.
 *
 * @param contentBytes - room behind the head, for the content.
 */
export function encodeHead(
  { seal, compression, isPointer, endsEarlyMs }: FrameHead,
  contentBytes = 0,
): Buffer {
  const dictionary = compression?.dictionary;
  const sealBytes = seal === undefined ? 0 : 1 + seal.keyId.length + SALT_BYTES + NONCE_BYTES;
  const dictionaryBytes = dictionary === undefined ? 0 : 1 + CHECKSUM_BYTES;
  const compressionBytes = compression === undefined ? 0 : 4 + dictionaryBytes;
  const endBytes = endsEarlyMs === undefined ? 0 : END_BYTES;
  const headBytes = 2 + sealBytes + compressionBytes + endBytes;
  const head = Buffer.allocUnsafe(headBytes + contentBytes);
  head[0] = VERSION;
  head[1] =
    (compression === undefined ? 0 : 1 + ALGORITHMS.indexOf(compression.algorithm)) |
    (seal === undefined ? 0 : SEALED) |
    (isPointer ? POINTER : 0) |
    (dictionary === undefined ? 0 : DICTIONARY) |
    (endsEarlyMs === undefined ? 0 : ENDS_EARLY);
  if (seal !== undefined) {
    head[2] = seal.keyId.length;
    writeLatin1(seal.keyId, head, 3);
    head.set(seal.salt, 3 + seal.keyId.length);
    head.set(seal.nonce, 3 + seal.keyId.length + SALT_BYTES);
  }
  if (compression !== undefined) head.writeUInt32BE(compression.clearBytes, 2 + sealBytes);
  if (dictionary !== undefined) {
    head[6 + sealBytes] = dictionary.id;
    head.set(dictionary.checksum, 7 + sealBytes);
  }
  if (endsEarlyMs !== undefined) head.writeUIntBE(endsEarlyMs, headBytes - END_BYTES, END_BYTES);
  return head;
}

/** For digests in base64url, ids and words. A native call for so few characters costs more than they do. */
export function writeLatin1(text: string, into: Buffer, start: number): void {
  for (let at = 0; at < text.length; at += 1) into[start + at] = text.charCodeAt(at);
}

/** Its content is no view of its own: who opens a seal would make another of it. */
export interface Frame {
  readonly head: FrameHead;
  /** The head, which the seal authenticates, and the content. */
  readonly bytes: Buffer;
  /** Where the content starts. */
  readonly start: number;
}

/** @throws {@link UnreadableOutcome} for all that {@link encodeHead} does not write. */
export function decodeFrame(body: Uint8Array): Frame {
  const bytes = new Reader(body);
  const version = bytes.u8();
  const flags = bytes.u8();
  const code = flags & COMPRESSION;
  const hasDictionary = (flags & DICTIONARY) !== 0;
  // Only deflate takes a dictionary in every version of Node.
  const isKnown = version === VERSION && (flags & RESERVED) === 0 && (!hasDictionary || code === 1);
  if (!isKnown) throw new UnreadableOutcome('format');
  const seal = (flags & SEALED) === 0 ? undefined : readSeal(bytes);
  const algorithm = code === 0 ? undefined : ALGORITHMS[code - 1];
  const compression =
    algorithm === undefined ? undefined : readCompression(bytes, algorithm, hasDictionary);
  const isPointer = (flags & POINTER) !== 0;
  const endsEarlyMs = (flags & ENDS_EARLY) === 0 ? undefined : bytes.u48();
  return {
    head: { seal, compression, isPointer, endsEarlyMs },
    bytes: bytes.bytes,
    start: bytes.at,
  };
}

/** What is the same in all frames that one process has sealed with one derived key. */
interface SealedBy {
  /** As they stand in a frame. */
  readonly bytes: Buffer;
  readonly keyId: string;
  readonly salt: Buffer;
}

/** A reader mostly meets the same again: then there is nothing to decode, and the salt is the same object. */
let lastSealedBy: SealedBy | undefined;

function readSeal(bytes: Reader): SealHead {
  let by = lastSealedBy;
  if (by === undefined || !bytes.skipIf(by.bytes)) lastSealedBy = by = readSealedBy(bytes);
  return { keyId: by.keyId, salt: by.salt, nonce: bytes.take(NONCE_BYTES) };
}

function readSealedBy(bytes: Reader): SealedBy {
  const idBytes = bytes.u8();
  // A copy: what it is part of may be large.
  const named = Buffer.from(bytes.take(idBytes + SALT_BYTES));
  const keyId = named.toString('latin1', 0, idBytes);
  if (!KEY_ID.test(keyId)) throw new UnreadableOutcome('format');
  return {
    bytes: Buffer.concat([Buffer.of(idBytes), named]),
    keyId,
    salt: named.subarray(idBytes),
  };
}

function readCompression(
  bytes: Reader,
  algorithm: Algorithm,
  hasDictionary: boolean,
): CompressionHead {
  const clearBytes = bytes.u32();
  if (clearBytes > MAX_CLEAR_BYTES) throw new UnreadableOutcome('format');
  if (!hasDictionary) return { algorithm, clearBytes };
  const id = bytes.u8();
  if (id === 0) throw new UnreadableOutcome('format');
  return { algorithm, clearBytes, dictionary: { id, checksum: bytes.take(CHECKSUM_BYTES) } };
}

/** The transport's header and the body in one. */
export function encodeContent(outcome: Outcome): Buffer {
  const bytes = 4 + bytesOf(outcome);
  const content = Buffer.allocUnsafe(bytes);
  writeContent(outcome, content, 0, bytes);
  return content;
}

/**
 * Writes what {@link encodeContent} returns.
 * @param bytes - its length.
 */
export function writeContent(
  { header, body }: Outcome,
  into: Buffer,
  start: number,
  bytes: number,
): void {
  const headerBytes = bytes - 4 - body.length;
  into.writeUInt32BE(headerBytes, start);
  into.write(header, start + 4);
  into.set(body, start + 4 + headerBytes);
}

/** @throws {@link UnreadableOutcome} */
export function decodeContent(content: Uint8Array): Outcome {
  const bytes = new Reader(content);
  const headerBytes = bytes.u32();
  const header = bytes.text(headerBytes, 'utf8');
  // Decoding replaces what is no UTF-8.
  const isWhole = !header.includes('\ufffd') || isUtf8(content.subarray(4, 4 + headerBytes));
  if (!isWhole) throw new UnreadableOutcome('format');
  return { header, body: bytes.rest() };
}

/** Where a body is that is not in the record, and how a reader sees that it is whole. */
export interface BlobPointer {
  /** The id of the store that has it: 1 to 16 characters of `a-z`, `0-9` and `-`. */
  readonly store: string;
  readonly name: string;
  /** Of the body, in clear. */
  readonly clearBytes: number;
  /** Of the blob, as it is stored. */
  readonly storedBytes: number;
  /** Of the body, in clear. */
  readonly sha256: Uint8Array;
  /** In how many bytes each the body is encrypted. */
  readonly segmentBytes: number;
  /** Of this blob only, if it is encrypted. */
  readonly key?: Uint8Array;
}

const STORE_ID = /^[a-z0-9-]{1,16}$/;
const SHA256_BYTES = 32;
const KEY_BYTES = 32;

/**
 * ```
 * u8 n, n bytes of the store's id; u16 n, n bytes of the name; u48 clear bytes; u48 stored bytes; 32 bytes of SHA-256;
 * u32 bytes of a segment; [encrypted] 32 bytes of key
 * ```
 */
export function encodePointer(pointer: BlobPointer): Buffer {
  const { store, name, clearBytes, storedBytes, sha256, segmentBytes, key } = pointer;
  const nameBytes = Buffer.from(name);
  const head = Buffer.alloc(3 + store.length);
  head.writeUInt8(store.length);
  head.write(store, 1, 'ascii');
  head.writeUInt16BE(nameBytes.length, 1 + store.length);
  const sizes = Buffer.alloc(12);
  sizes.writeUIntBE(clearBytes, 0, 6);
  sizes.writeUIntBE(storedBytes, 6, 6);
  return Buffer.concat([
    ...[head, nameBytes, sizes, sha256, u32(segmentBytes)],
    ...(key === undefined ? [] : [key]),
  ]);
}

/** @throws {@link UnreadableOutcome} */
export function decodePointer(body: Uint8Array): BlobPointer {
  const bytes = new Reader(body);
  const store = bytes.text(bytes.u8(), 'latin1');
  const name = bytes.take(bytes.u16());
  const pointer = {
    store,
    name: name.toString(),
    clearBytes: bytes.u48(),
    storedBytes: bytes.u48(),
    sha256: bytes.take(SHA256_BYTES),
    segmentBytes: bytes.u32(),
  };
  const key = bytes.rest();
  const isKey = key.length === KEY_BYTES || key.length === 0;
  if (!STORE_ID.test(store) || name.length === 0 || !isUtf8(name) || !isKey) {
    throw new UnreadableOutcome('format');
  }
  return key.length === 0 ? pointer : { ...pointer, key };
}

function u32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Bytes that a store returned: of any length, and anything may be in them. */
class Reader {
  readonly bytes: Buffer;
  at = 0;

  constructor(bytes: Uint8Array) {
    this.bytes = asBuffer(bytes);
  }

  take(count: number): Buffer {
    const start = this.skip(count);
    return this.bytes.subarray(start, this.at);
  }

  text(count: number, encoding: 'latin1' | 'utf8'): string {
    return this.bytes.toString(encoding, this.skip(count), this.at);
  }

  u8(): number {
    return this.bytes.readUInt8(this.skip(1));
  }

  u16(): number {
    return this.bytes.readUInt16BE(this.skip(2));
  }

  u32(): number {
    return this.bytes.readUInt32BE(this.skip(4));
  }

  u48(): number {
    return this.bytes.readUIntBE(this.skip(6), 6);
  }

  /** Whether these bytes follow, which are then behind it. */
  skipIf(expected: Buffer): boolean {
    const { bytes, at } = this;
    for (let i = 0; i < expected.length; i += 1) if (bytes[at + i] !== expected[i]) return false;
    this.at += expected.length;
    return true;
  }

  /** @returns where it was. */
  private skip(count: number): number {
    const start = this.at;
    this.at += count;
    if (this.at > this.bytes.length) throw new UnreadableOutcome('format');
    return start;
  }

  rest(): Buffer {
    return this.bytes.subarray(this.at);
  }
}
