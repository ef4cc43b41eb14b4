import type { Readable } from 'node:stream';
import { BlobUnavailableError, type PutHints } from '../../core/payload/blob-store.js';
import { asBuffer } from '../../core/util/as-buffer.js';

/** The bytes of a put, for one reader. Whatever fails first is what the put rejects with: source, signal or store. */
export class BlobSource implements AsyncIterable<Buffer> {
  /** How many bytes were read. */
  bytes = 0;
  private failure: { readonly error: unknown } | undefined;
  private readonly abort = () => {
    this.fail(this.hints.signal.reason);
  };

  constructor(
    private readonly stream: Readable,
    private readonly hints: PutHints,
  ) {
    if (stream.errored !== null) this.failure = { error: stream.errored };
    // From the first moment, and for good: an error without a listener ends the process.
    stream.on('error', (error) => {
      this.failure ??= { error };
    });
    hints.signal.addEventListener('abort', this.abort);
    if (hints.signal.aborted) this.abort();
  }

  /** Destroys the source: who reads it gets an error. */
  fail(error: unknown): void {
    this.failure ??= { error };
    this.stream.destroy();
  }

  throwIfFailed(): void {
    if (this.failure !== undefined) throw this.failure.error;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer, void, undefined> {
    const { bytes: expected } = this.hints;
    // Otherwise a reader that stops destroys it with an error that hides why.
    const chunks = this.stream.iterator({ destroyOnReturn: false });
    for await (const chunk of chunks as AsyncIterable<Uint8Array | string>) {
      const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : asBuffer(chunk);
      this.bytes += bytes.length;
      yield bytes;
    }
    if (expected !== undefined && this.bytes !== expected) {
      throw new BlobUnavailableError(
        `The source ended after ${this.bytes} bytes, not after the expected ${expected}.`,
      );
    }
  }

  close(): void {
    this.hints.signal.removeEventListener('abort', this.abort);
  }
}

/** Calls `store` with the source, which is destroyed if that fails. @throws what failed first. */
export async function withSource<Result>(
  stream: Readable,
  hints: PutHints,
  store: (source: BlobSource) => Promise<Result>,
): Promise<Result> {
  const source = new BlobSource(stream, hints);
  try {
    source.throwIfFailed();
    return await store(source);
  } catch (error) {
    source.fail(error);
    source.throwIfFailed();
    throw error;
  } finally {
    source.close();
  }
}
