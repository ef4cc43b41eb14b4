import { hash } from 'node:crypto';
import { pipeline, Readable, type Transform } from 'node:stream';
import zlib from 'node:zlib';
import { CHECKSUM_BYTES, type Algorithm, type CompressionHead } from './frame.js';
import { UnreadableOutcome } from './unreadable-outcome.js';

export interface ResolvedCompressionOptions {
  readonly algorithm: Algorithm;
  readonly thresholdBytes: number;
  readonly level: number;
}

export interface Dictionary {
  readonly id: number;
  readonly bytes: Uint8Array;
  readonly checksum: Uint8Array;
}

export interface Dictionaries {
  /** Of outcomes that are written from now on. */
  readonly write: Dictionary | undefined;
  readonly byId: ReadonlyMap<number, Dictionary>;
}

export const NO_DICTIONARIES: Dictionaries = { write: undefined, byId: new Map() };

export function dictionaryOf(id: number, bytes: Uint8Array): Dictionary {
  const checksum = Buffer.from(hash('sha256', bytes, 'hex'), 'hex').subarray(0, CHECKSUM_BYTES);
  return { id, bytes, checksum };
}

/** What a result costs in a frame besides itself: the head, the lengths, a dictionary's id. */
const OVERHEAD_BYTES = 16;

/** Smaller contents are compressed at once, in less than 0.2 ms; others in the pool of threads. */
const AT_ONCE_BYTES = 32_768;

/** What is compact already, such as an image or an archive, is so at its beginning, too. */
const SAMPLE_BYTES = 4_096;

/** A larger output takes several. Not one of the length that is told: it is unchecked. */
const CHUNK_BYTES = 262_144;

interface Call {
  readonly info: true;
  readonly level?: number;
  readonly params?: Readonly<Record<number, number>>;
  readonly dictionary?: Uint8Array;
  readonly maxOutputLength?: number;
  readonly chunkSize?: number;
}

interface Output {
  readonly buffer: Buffer;
  /** How many bytes of the input it took. */
  readonly engine: { readonly bytesWritten: number };
}

interface Way {
  readonly now: (input: Uint8Array, options: Call) => Output;
  readonly later: (
    input: Uint8Array,
    options: Call,
    done: (error: Error | null, output: Output) => void,
  ) => void;
}

interface Codec {
  readonly compress: Way;
  readonly inflate: Way;
  readonly compressStream: (options: Pick<Call, 'level' | 'params'>) => Transform;
  readonly inflateStream: () => Transform;
  options(level: number): Pick<Call, 'level' | 'params'>;
}

/** What the types of the least version of Node do not have. */
const { constants, ...functions } = zlib as unknown as Readonly<
  Record<string, Way['now'] & Way['later']>
> & { readonly constants: Readonly<Record<string, number>> };

const streams = zlib as unknown as Readonly<Record<string, (options?: object) => Transform>>;

function wayOf(name: string): Way | undefined {
  const now = functions[`${name}Sync`];
  const later = functions[name];
  return now && later && { now, later };
}

function codecOf(compress: string, inflate: string, options: Codec['options']): Codec | undefined {
  const ways = { compress: wayOf(compress), inflate: wayOf(inflate) };
  const compressStream = streams[creator(compress)];
  const inflateStream = streams[creator(inflate)];
  if (!ways.compress || !ways.inflate || !compressStream || !inflateStream) return undefined;
  return { compress: ways.compress, inflate: ways.inflate, compressStream, inflateStream, options };
}

function creator(name: string): string {
  return `create${name[0]?.toUpperCase() ?? ''}${name.slice(1)}`;
}

const CODECS: Readonly<Record<Algorithm, Codec | undefined>> = {
  deflate: codecOf('deflateRaw', 'inflateRaw', (level) => ({ level })),
  brotli: codecOf('brotliCompress', 'brotliDecompress', (level) => ({
    params: { [Number(constants.BROTLI_PARAM_QUALITY)]: level },
  })),
  zstd: codecOf('zstdCompress', 'zstdDecompress', (level) => ({
    params: { [Number(constants.ZSTD_c_compressionLevel)]: level },
  })),
};

/** Whether this version of Node has it. */
export function isAvailable(algorithm: Algorithm): boolean {
  return CODECS[algorithm] !== undefined;
}

/** @returns `undefined` if it would not save an eighth. */
export function compress(
  clear: Uint8Array,
  { algorithm, level }: ResolvedCompressionOptions,
  dictionary: Dictionary | undefined,
): Buffer | undefined | Promise<Buffer | undefined> {
  const codec = codecFor(algorithm);
  const call = { info: true, ...codec.options(level), ...withBytes(dictionary) } as const;
  if (clear.length > SAMPLE_BYTES && isCompact(clear, codec, call)) return undefined;
  const most = (clear.length * 7) / 8 - OVERHEAD_BYTES;
  const worth = ({ buffer }: Output) => (buffer.length <= most ? buffer : undefined);
  return clear.length <= AT_ONCE_BYTES
    ? worth(codec.compress.now(clear, call))
    : later(codec.compress, clear, call).then(worth);
}

/**
 * What compresses a stream.
 * @param beginning - of the stream, by which is decided.
 * @returns `undefined` for what is compact already.
 */
export function compressor(
  beginning: Uint8Array,
  { algorithm, level }: ResolvedCompressionOptions,
): Transform | undefined {
  const codec = codecFor(algorithm);
  const options = codec.options(level);
  if (isCompact(beginning, codec, { info: true, ...options })) return undefined;
  return codec.compressStream(options);
}

/** The other way. @throws {@link UnreadableOutcome} for what no {@link compressor} made. */
export async function* inflatedStream(
  content: AsyncIterable<Buffer>,
  algorithm: Algorithm,
): AsyncGenerator<Buffer, void, undefined> {
  const inflate = codecFor(algorithm).inflateStream();
  pipeline(Readable.from(content, { objectMode: false }), inflate, () => undefined);
  try {
    for await (const chunk of inflate) yield chunk as Buffer;
  } catch (error) {
    // What zlib says of bytes that are not its own; the content's own errors have their reason.
    throw error instanceof UnreadableOutcome ? error : new UnreadableOutcome('integrity');
  }
}

function codecFor(algorithm: Algorithm): Codec {
  const codec = CODECS[algorithm];
  if (codec === undefined) throw new UnreadableOutcome('algorithm');
  return codec;
}

function isCompact(clear: Uint8Array, { compress: { now } }: Codec, call: Call): boolean {
  const sample = clear.subarray(0, SAMPLE_BYTES);
  return now(sample, call).buffer.length > sample.length * 0.9;
}

/** @throws {@link UnreadableOutcome} for anything but `clearBytes` bytes, of which it never makes more. */
export function inflate(
  content: Uint8Array,
  { algorithm, clearBytes, dictionary: named }: CompressionHead,
  dictionaries: Dictionaries,
): Buffer | Promise<Buffer> {
  const codec = codecFor(algorithm);
  const dictionary = named && dictionaries.byId.get(named.id);
  if (
    named !== undefined &&
    !dictionary?.checksum.every((byte, at) => byte === named.checksum[at])
  ) {
    throw new UnreadableOutcome('dictionary');
  }
  const call = {
    info: true,
    ...withBytes(dictionary),
    maxOutputLength: Math.max(1, clearBytes),
    chunkSize: Math.min(clearBytes + 64, CHUNK_BYTES),
  } as const;
  // Node accepts bytes after the end of the stream, and in some versions a zstd frame that is cut short.
  const whole = ({ buffer, engine }: Output): Buffer => {
    const isWhole = buffer.length === clearBytes && engine.bytesWritten === content.length;
    if (!isWhole) throw new UnreadableOutcome('format');
    return buffer;
  };
  if (clearBytes > AT_ONCE_BYTES) {
    return later(codec.inflate, content, call).then(whole, notInflated);
  }
  let output: Output;
  try {
    output = codec.inflate.now(content, call);
  } catch {
    return notInflated();
  }
  return whole(output);
}

function notInflated(): never {
  throw new UnreadableOutcome('format');
}

function withBytes(dictionary: Dictionary | undefined): Pick<Call, 'dictionary'> {
  return dictionary === undefined ? {} : { dictionary: dictionary.bytes };
}

function later(way: Way, input: Uint8Array, options: Call): Promise<Output> {
  return new Promise((resolve, reject) => {
    way.later(input, options, (error, output) => {
      if (error === null) resolve(output);
      else reject(error);
    });
  });
}
