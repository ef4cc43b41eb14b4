import { createCipheriv } from 'node:crypto';
import { Readable } from 'node:stream';

const CHUNK_BYTES = 65_536;
const ZEROS = Buffer.alloc(CHUNK_BYTES);

/** The bytes of one execution, which tell it from every other one, in chunks. Compressible, they repeat within each. */
export function* bytesOf(
  execution: number,
  length: number,
  isCompressible = false,
): Generator<Buffer> {
  const key = Buffer.alloc(16, execution);
  const random = createCipheriv('aes-128-ctr', key, Buffer.alloc(16));
  for (let at = 0; at < length; at += CHUNK_BYTES) {
    const bytes = random.update(ZEROS);
    const chunk = isCompressible ? Buffer.alloc(CHUNK_BYTES, bytes.toString('hex', 0, 64)) : bytes;
    yield chunk.subarray(0, Math.min(CHUNK_BYTES, length - at));
  }
}

/** @param failsAfter - bytes, after which the source fails. */
export function streamOf(
  execution: number,
  length: number,
  { isCompressible = false, failsAfter = Infinity } = {},
): Readable {
  const chunks = function* () {
    let bytes = 0;
    for (const chunk of bytesOf(execution, length, isCompressible)) {
      if (bytes >= failsAfter) throw new Error('the source fails');
      bytes += chunk.length;
      yield chunk;
    }
  };
  return Readable.from(chunks(), { objectMode: false });
}
